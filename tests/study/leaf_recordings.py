"""Records what the leaves' counters return in real runs, as golden files: `python -m tests.study.leaf_recordings`.

A copy of the program is made in which SprayCheck's process is the recorder, and runs each scenario on a lab of its own.
Needs root.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from scenarios.isolated import CODE_FOLDER, OWN_PACKAGES
from tests.support import leaf_recording
from tests.support.spraylab_command import COMMAND, own_lab
from tests.unit.test_golden_detector import GOLDEN, write_conclusions

LINK, SPINES, SMALL_FLOWS = "p0:leaf2>spine1", 4, 28

PROGRAM = """import sys
from pathlib import Path

from agent.spraycheck.leaf_recording import record

sys.exit(record(Path({path!r})))
"""


def scenario(name: str, **parts: Any) -> dict[str, Any]:
    """Four leaves and spines, two planes, 1 % asked for unless it is said."""
    return {
        "version": 1,
        "name": name,
        "topology": {"planes": 2, "leaves": 4, "spines": SPINES, "hosts_per_leaf": 1},
        "transport": {"pmtu": 256},
        "workloads": [{"strides": [1, 3], "packets": 16384}],
        "detector": {"min_rate": "1%"},
        **parts,
    }


ONE_PLANE = {"planes": 1, "leaves": 4, "spines": SPINES, "hosts_per_leaf": 1}
SMALL = [{"pairs": [[2, 3], [2, 1], [0, 1], [0, 3]], "qps": SMALL_FLOWS, "packets": 32 * SPINES}]

SCENARIOS = (
    scenario("gray-link", faults=[{"link": LINK, "drop": "1%"}]),
    scenario("healthy"),
    scenario("two-gray-links", faults=[{"link": LINK, "drop": "1%"}, {"link": "p1:spine0>leaf1", "drop": "2%"}]),
    scenario(
        "dead-plane",
        workloads=[{"strides": [1, 3], "packets": 4096}],
        faults=[{"target": "p1", "drop": "100%"}],
        transport={"pmtu": 256, "ack_timeout_ms": 500, "ev": {"loss_policy": "threshold"}},
        expect={"detection": "recorded"},
    ),
    scenario(
        "small-flows",
        topology=ONE_PLANE,
        workloads=SMALL,
        transport={"pmtu": 256, "spray": "random"},
        detector={"min_rate": "20%"},
        faults=[{"link": LINK, "drop": "20%"}],
    ),
    scenario("denied-path", workloads=[{"strides": [1, 3], "packets": 24000}]),
    scenario(
        "loss-policy",
        topology=ONE_PLANE,
        transport={"pmtu": 256, "ev": {"loss_policy": "paper"}},
        workloads=[{"strides": [1, 3], "packets": 416 * SPINES}],
        detector={"min_rate": "10%"},
        faults=[{"link": LINK, "drop": "20%"}],
    ),
    scenario(
        "host-link",
        workloads=[{"strides": [1, 3], "packets": 8192}],
        detector={"min_rate": "1.5%", "expectation": "declared"},
        faults=[{"link": "p0:h2>leaf2", "drop": "2%"}],
        expect={"detected": []},
    ),
    scenario(
        "collective",
        topology=ONE_PLANE,
        workloads=[{"type": "all-to-all", "bytes": "104KiB", "iterations": 9, "qps": 2}],
        detector={"min_rate": "20%"},
        faults=[{"link": LINK, "drop": "20%"}],
    ),
)


def main() -> None:
    """Record all scenarios, or those that are named."""
    wanted = sys.argv[1:] or [each["name"] for each in SCENARIOS]
    GOLDEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for each in SCENARIOS:
            if each["name"] in wanted:
                _record(each, Path(folder))
    write_conclusions()


def _record(parts: dict[str, Any], folder: Path) -> None:
    name = parts["name"]
    path, code = GOLDEN / f"{name}.xz", folder / "code"
    _copy_program(code, path)
    file = GOLDEN / f"{name}.yaml"
    file.write_text(yaml.safe_dump(parts, sort_keys=False))
    with own_lab(folder / "runs") as lab:

        def run(*words: str) -> None:
            done = lab.words(*words)
            own = [sys.executable, "-I", code / "scenarios" / "isolated.py", "scenarios.cli", *done[len(COMMAND) :]]
            subprocess.run(own, check=False)

        if name == "denied-path":
            run("up", str(file))
            run("deny", "set", LINK)
            run("run", "--attach", str(file))
            run("down")
        else:
            run("run", str(file))
    print(f"{path}: {path.stat().st_size:,} bytes, {len(leaf_recording.load(path).polls):,} polls")


def _copy_program(code: Path, path: Path) -> None:
    shutil.rmtree(code, ignore_errors=True)
    for package in OWN_PACKAGES:
        shutil.copytree(Path(CODE_FOLDER) / package, code / package)
    inside = code / "agent" / "spraycheck"
    support = Path(leaf_recording.__file__).read_text()
    (inside / "__main__.py").rename(inside / "program.py")
    (inside / "leaf_recording.py").write_text(support.replace("import __main__ as program", "import program"))
    (inside / "__main__.py").write_text(PROGRAM.format(path=str(path)))


if __name__ == "__main__":
    main()
