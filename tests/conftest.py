"""Settings of the whole suite: what a property test tries is the same in every run, and no test is timed.

`--hypothesis-profile=brief` tries less of it, and `--once-each` runs each test with the first of its parameters only:
both for second interpreters, where a line that a release breaks is to be run, and not proved anew.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.sudo_user import SUDO, users_folder

settings.register_profile(
    "suite",
    deadline=None,  # a busy machine is no failure
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("brief", settings.get_profile("suite"), max_examples=10)
settings.load_profile("suite")

for _name in SUDO:
    os.environ.pop(_name, None)
"""Who called the tests, perhaps by sudo, is not who calls the commands in them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--once-each", action="store_true", help="each test with the first of its parameters only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--once-each"):
        items[:] = {item.nodeid.partition("[")[0]: item for item in reversed(items)}.values()
        items.reverse()


@pytest.fixture
def plainly_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blank figures of the right names in reports and comparisons; drawing takes seconds, and is tested elsewhere."""
    from matplotlib.figure import Figure

    from results.report.page import FIGURES
    from results.report.style import Drawn

    def blank(*_: object) -> list[Drawn]:
        return [Drawn(name, name, name, "<svg><g id='blank'/></svg>", Figure((1, 1))) for name in FIGURES]

    for module in ("page", "comparison"):
        monkeypatch.setattr(f"results.report.{module}.figures_of", blank)


@pytest.fixture
def user_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of an unprivileged user, behind whose sudo the test then is."""
    for name, value in SUDO.items():
        monkeypatch.setenv(name, value)
    with users_folder() as folder:
        yield folder
