"""Mininet's own command with spraylab's topology: it builds, tests and leaves nothing, and never cleans up by name."""

import subprocess
import sys
from pathlib import Path

import pytest

from testbed.kernel.netns import create_namespaces, namespaces
from testbed.model.node_names import namespace_prefix
from tests.support.documents import ROOT
from tests.support.namespaces import needs_root, removed_lab
from tests.support.spraylab_command import own_lab

pytestmark = [pytest.mark.root, needs_root]

MN = Path(sys.executable).with_name("mn")


SCRIPT = """
import sys
from scenarios.api import Lab
from testbed.emulation.network import FabricNet
from testbed.emulation.topo import FabricTopo

with FabricNet(FabricTopo(planes=1, leaves=2, spines=1), sys.argv[1]) as net, Lab.on(net) as lab:
    net["h0"].cmd("setsid sleep 300 &")
    print("up", flush=True)
    sys.stdin.readline()
"""


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
    assert "OpenFlow" not in done.stderr, "nothing is missing"


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


def test_what_a_killed_script_leaves_is_removed_by_down(tmp_path):
    with own_lab(tmp_path) as lab:
        words = (sys.executable, "-c", SCRIPT, lab.name)
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as script:
            assert script.stdout.readline() == "up\n"
            script.kill()
        assert any(each.startswith("process") for each in lab.left()), "what was started inside goes on"
        lab("down")
        assert lab.left() == []


def test_a_script_that_fails_leaves_nothing(tmp_path):
    with own_lab(tmp_path) as lab:
        words = (sys.executable, "-c", SCRIPT.replace("sys.stdin.readline()", "1 / 0"), lab.name)
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
        assert "ZeroDivisionError" in done.stderr
        assert [each for each in lab.left() if not each.startswith("process")] == []
