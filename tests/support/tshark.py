"""tshark as documents use it: by a user, since as root Wireshark 4.4 runs no Lua scripts."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

_NOBODY = 65534


def run_tshark(
    capture: Path, options: Sequence[str], scripts: Sequence[Path] = (), check: bool = True
) -> subprocess.CompletedProcess[str]:
    """tshark over a capture with Lua scripts, as nobody where the test is root.

    Its home is empty: a user may have installed the dissector as a plug-in.
    """
    with TemporaryDirectory() as home:
        os.chmod(home, 0o755)
        copies = [shutil.copy(path, Path(home) / f"{at}{path.suffix}") for at, path in enumerate((*scripts, capture))]
        for copy in copies:
            copy.chmod(0o644)
        command = ["tshark", *(f"-Xlua_script:{copy}" for copy in copies[:-1]), "-r", str(copies[-1]), *options]
        env = os.environ | {"HOME": home, "XDG_CONFIG_HOME": home}
        nobody = _NOBODY if os.geteuid() == 0 else None
        return subprocess.run(
            command,
            check=check,
            capture_output=True,
            text=True,
            timeout=120,
            env=env,
            cwd="/",
            user=nobody,
            group=nobody,
            extra_groups=None if nobody is None else [],
        )


def number(text: str) -> int:
    """The number of a field; Wireshark 4.4 shows bits as `True` and `False`."""
    return {"True": 1, "False": 0}[text] if text in ("True", "False") else int(text, 0)
