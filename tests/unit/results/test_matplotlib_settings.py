"""Figures are drawn by our own settings, whatever matplotlib would find of the user's."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from results import matplotlib_settings
from results.files.run_dir import RunDir
from results.report.page import write_report
from tests.support.run_folder import write_run

SCRIPT = """
import sys
from pathlib import Path
import results.matplotlib_settings
from results.study.figures import draw_figures
from results.files.run_dir import RunDir
from results.report import fabric_figure, style, timeline_figure
from results.report.run_data import read_run
run = RunDir(Path(sys.argv[1]))
data = read_run(run)
timeline = timeline_figure.draw(data, style.WIDTH_IN, timeline_figure.reaches(data))
style.save([fabric_figure.draw(data, style.WIDTH_IN), timeline], run.figures)
assert "matplotlib.pyplot" not in sys.modules
"""
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    return write_run(tmp_path_factory.mktemp("runs") / "20260304T050607Z-gray-link-1")


@pytest.fixture(scope="module")
def as_it_is(run: RunDir) -> dict[str, bytes]:
    write_report(run)
    return figures(run)


def figures(run: RunDir) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(run.figures.iterdir())}


@pytest.mark.parametrize(
    ("where", "content", "backend"),
    [
        ("home", b"text.usetex: True\nfont.size: 30\n", "module://matplotlib_inline.backend_inline"),
        ("here", None, "qtagg"),
        ("MATPLOTLIBRC", b"\xff\xfe\0", "nonsense"),
    ],
)
def test_nothing_of_the_users_matplotlib_is_read(
    run: RunDir, as_it_is: dict[str, bytes], tmp_path: Path, where: str, content: bytes | None, backend: str
) -> None:
    home, here = tmp_path / "home", tmp_path / "here"
    file = {"here": here, "home": home / ".config/matplotlib", "MATPLOTLIBRC": tmp_path}[where] / "matplotlibrc"
    for folder in (home, here, file.parent):
        folder.mkdir(parents=True, exist_ok=True)
    if content is None:
        os.mkfifo(file)  # whoever reads it hangs
    else:
        file.write_bytes(content)
    more = {"MATPLOTLIBRC": str(file)} if where == "MATPLOTLIBRC" else {}
    environment = {"HOME": str(home), "XDG_CACHE_HOME": str(home), "MPLBACKEND": backend, **more}
    drawn = drawn_with(environment, run, here)
    assert {Path(name).stem for name in drawn} == {"fabric", "timeline"}
    assert drawn == {name: as_it_is[name] for name in drawn}


def drawn_with(environment: dict[str, str], run: RunDir, here: Path) -> dict[str, bytes]:
    """Two figures, which take less time than all, in a folder that had none."""
    run = RunDir(shutil.copytree(run.path, here / run.path.name, ignore=shutil.ignore_patterns("figures")))
    done = subprocess.run(
        (sys.executable, "-c", SCRIPT, str(run.path)), env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        cwd=here, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return figures(run)


def test_settings_of_a_program_that_draws_itself_are_not_ours_and_stay(run: RunDir, as_it_is: dict[str, bytes]) -> None:
    with matplotlib_settings.matplotlib.rc_context({"font.size": 30, "text.usetex": True, "savefig.bbox": "tight"}):
        write_report(run)
        assert matplotlib_settings.matplotlib.rcParams["font.size"] == 30
    assert figures(run) == as_it_is
