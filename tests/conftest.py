"""Settings of the whole suite: what a property test tries is the same in every run, and no test is timed.

`--hypothesis-profile=brief` tries less of it, for second interpreters.
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


@pytest.fixture
def user_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of an unprivileged user, behind whose sudo the test then is."""
    for name, value in SUDO.items():
        monkeypatch.setenv(name, value)
    with users_folder() as folder:
        yield folder
