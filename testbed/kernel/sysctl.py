"""Sysctls of a network namespace, written and read as files below /proc/sys. Knows records, not fabrics."""

from collections.abc import Sequence
from pathlib import Path

from testbed.errors import KernelError
from testbed.kernel.netns import inside
from testbed.model.node_config import Sysctl

_PROC_SYS = Path("/proc/sys")


def write_sysctls(node: str, namespace: Path, sysctls: Sequence[Sysctl]) -> None:
    """Set `sysctls` inside a namespace. Raises KernelError that names the file."""
    with inside(namespace):
        for sysctl in sysctls:
            try:
                (_PROC_SYS / sysctl.path).write_text(sysctl.value)
            except OSError as error:
                raise KernelError(node, f"write {sysctl.value} to {sysctl.path}", error.errno or 0) from error


def read_sysctls(namespace: Path, paths: Sequence[str]) -> tuple[Sysctl, ...]:
    """Read the present values; a file that does not exist reads as an empty text."""
    with inside(namespace):
        return tuple(Sysctl(path, _read(_PROC_SYS / path)) for path in paths)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return ""
