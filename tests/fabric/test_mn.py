"""Mininet's own command with spraylab's topology: it builds, tests and leaves nothing, and never cleans up by name."""

import subprocess
import sys
from pathlib import Path

import pytest

from testbed.kernel.netns import create_namespaces, namespaces
from testbed.model.ids import namespace_prefix
from tests.support.documents import ROOT
from tests.support.namespaces import needs_root, removed_lab

pytestmark = [pytest.mark.root, needs_root]

MN = Path(sys.executable).with_name("mn")


@pytest.fixture
def lab():
    with removed_lab() as name:
        yield name


def mn(topo: str, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    command = (sys.executable, str(MN), "--custom", str(ROOT / "testbed/emulation/mn.py"), "--topo", topo, *words)
    return subprocess.run(command, input=typed, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)


@pytest.mark.skipif(not MN.exists(), reason="Mininet's command is not installed")
def test_it_builds_pings_and_leaves_nothing(lab):
    done = mn(f"spraylab,planes=1,leaves=2,spines=2,lab={lab}", "--test", "pingall")
    assert (done.returncode, namespaces(namespace_prefix(lab))) == (0, ())
    assert "0% dropped (2/2 received)" in done.stderr


@pytest.mark.skipif(not MN.exists(), reason="Mininet's command is not installed")
def test_its_cli_is_spraylabs(lab):
    done = mn(f"spraylab,1,2,2,lab={lab}", typed="link p0-leaf0 p0-spine1 down\nlinks\ndpctl x\nexit\n")
    assert done.returncode == 0
    assert "p0:leaf0-spine1 (DOWN DOWN)" in done.stderr
    assert "*** dpctl: leaves and spines are Linux routers" in done.stderr


@pytest.mark.skipif(not MN.exists(), reason="Mininet's command is not installed")
@pytest.mark.parametrize(
    ("topo", "told"),
    [
        ("spraylab,planes=99,lab={}", "planes: 99 is not in 1..16"),
        ("spraylab,floors=2,lab={}", "unexpected keyword argument 'floors'"),
        ("spraylab,planes=1,leaves=2,spines=2,lab={}", "is already up, or was left behind"),
    ],
)
def test_an_error_is_told_with_an_exit_code_and_nothing_of_others_is_touched(lab, topo, told):
    create_namespaces([f"{namespace_prefix(lab)}h0"])
    with subprocess.Popen(("bash", "-c", "exec -a 'mininet:h0' sleep 60")) as bystander:
        done = mn(topo.format(lab), "--test", "pingall")
        assert bystander.poll() is None, "Mininet's own cleanup ends whatever is called so"
        bystander.kill()
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 1
    assert namespaces(namespace_prefix(lab)) == (f"{namespace_prefix(lab)}h0",)
