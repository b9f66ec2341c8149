"""What is built from the sources: a source archive that holds the project, and from it a wheel that works anywhere."""

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from functools import cache
from pathlib import Path

import pytest

from scenarios.isolated import OWN_PACKAGES
from testbed.version import VERSION
from tests.support.documents import ROOT

pytestmark = pytest.mark.slow

ELSEWHERE = {
    "share/spraylab/scenario.schema.json": "docs/scenario.schema.json",
    "share/spraylab/wireshark/mrc.lua": "docs/wireshark/mrc.lua",
    **{f"share/spraylab/schemas/{path.name}": f"docs/schemas/{path.name}" for path in ROOT.glob("docs/schemas/*.json")},
}
"""Installed files outside of the packages, and where the sources have them."""

NOT_SENT = {".gitignore"}


@cache
def sources() -> frozenset[str]:
    """All files that git tracks or would."""
    listed = ("git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    names = subprocess.run(listed, capture_output=True, text=True, check=False).stdout.split("\0")
    return frozenset(name for name in names if name and (ROOT / name).is_file())


def build(what: str, tree: Path, out: Path) -> Path:
    """Have the build backend make `sdist` or `wheel` of a tree, by the packages of this Python."""
    code = f"import sys, setuptools.build_meta as backend; backend.build_{what}(sys.argv[1])"
    subprocess.run((sys.executable, "-c", code, str(out)), cwd=tree, capture_output=True, text=True, check=True)
    return next(out.glob("*.tar.gz" if what == "sdist" else "*.whl"))


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not sources():
        pytest.skip("not a clone: git does not tell which files are the project's")
    tree = tmp_path_factory.mktemp("tree")
    for name in sources():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes((ROOT / name).read_bytes())
    return build("sdist", tree, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("unpacked")
    subprocess.run(("tar", "-xf", str(archive), "-C", str(place)), check=True)
    tree = place / f"spraylab-{VERSION}"
    removed = tree / "build/lib/scenarios/catalog/removed.yaml"  # as an earlier build left it, here or by pipx
    removed.parent.mkdir(parents=True)
    removed.touch()
    return build("wheel", tree, tmp_path_factory.mktemp("wheel"))


def test_the_archive_holds_the_project(archive: Path) -> None:
    with tarfile.open(archive) as packed:
        held = {name.partition("/")[2] for name in packed.getnames()}
    assert sorted(sources() - held - NOT_SENT) == []


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        held = {name: packed.read(name) for name in packed.namelist()}
    name = f"spraylab-{VERSION}"
    wanted = {path: path for path in sources() if path.split("/")[0] in OWN_PACKAGES}
    wanted |= {f"{name}.data/data/{place}": source for place, source in ELSEWHERE.items()}
    wanted |= {f"{name}.dist-info/licenses/LICENSE": "LICENSE"}
    described = {path for path in held if path.startswith(f"{name}.dist-info/")}
    assert sorted(set(held) - described - set(wanted)) == []
    assert sorted(path for path, source in wanted.items() if held.get(path) != (ROOT / source).read_bytes()) == []
    assert f"\nVersion: {VERSION}\n" in held[f"{name}.dist-info/METADATA"].decode()


def test_the_wheel_works_away_from_the_sources(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "site")
    program = (sys.executable, "-I", str(tmp_path / "site/scenarios/isolated.py"), "scenarios.cli")

    def said(*words: str) -> str:
        return subprocess.run((*program, *words), cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert said("--version") == f"spraylab, version {VERSION}\n"
    assert "gray-link" in said("validate", "gray-link")


def test_the_oldest_setuptools_that_is_installed_can_build_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (builds,) = project["build-system"]["requires"]
    assert builds in project["project"]["dependencies"]
