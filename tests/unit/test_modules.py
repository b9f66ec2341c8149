"""Every module of the program can be imported, with whatever Python and packages are here."""

import subprocess
import sys

from scenarios.isolated import OWN_PACKAGES
from tests.support.documents import ROOT

PROGRAM = f"""\
import importlib, sys, warnings
sys.path.insert(0, {str(ROOT)!r})
warnings.filterwarnings("error", category=DeprecationWarning, module="testbed|agent|faults|scenarios|results")
for name in sys.stdin.read().split():
    importlib.import_module(name)
"""
"""In a process of its own, since some modules change what they find: Scapy's layers, Mininet's classes."""


def names() -> list[str]:
    files = [path.relative_to(ROOT) for package in OWN_PACKAGES for path in (ROOT / package).rglob("*.py")]
    return sorted(".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in files)


def test_every_module_can_be_imported() -> None:
    found = [name for name in names() if not name.endswith("__main__")]
    assert len(found) > 300
    done = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM], input="\n".join(found), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
