"""`spraylab doctor` says who asks, by name."""

import os
import pwd

import pytest

from scenarios.cli.lab.check import who

ME, NOBODY = pwd.getpwuid(os.geteuid()).pw_name, pwd.getpwnam("nobody")


def test_the_user_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    assert who() == ME


@pytest.mark.parametrize(("uid", "name"), [(NOBODY.pw_uid, "nobody"), (4_000_000_000, "user 4000000000")])
def test_behind_sudo_who_is_to_own_the_results(uid: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", str(uid))
    monkeypatch.setenv("SUDO_GID", str(uid))
    assert who() == f"{ME} for {name} (sudo)"
