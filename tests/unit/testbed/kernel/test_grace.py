"""The machine's setting is changed for a moment only, and left alone where that has no effect."""

import os
import signal
import threading
from pathlib import Path

import pytest

from testbed.kernel.bpf import grace_period as grace
from testbed.kernel.bpf.grace_period import put_back, short_grace_periods


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder that stands for /sys/kernel."""
    for name, path in (("_EXPEDITED", tmp_path / "rcu_expedited"), ("_NORMAL", tmp_path / "rcu_normal")):
        path.write_text("0\n")
        monkeypatch.setattr(grace, name, path)
    return tmp_path


def expedited(folder: Path) -> str:
    return (folder / "rcu_expedited").read_text()[0]


def test_it_is_put_back_also_after_an_error(settings: Path) -> None:
    def interrupted() -> None:
        with short_grace_periods(settings / "note") as short:
            assert (short, expedited(settings), (settings / "note").exists()) == (True, "1", True)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (expedited(settings), (settings / "note").exists()) == ("0", False)


def test_what_somebody_else_has_set_stays(settings: Path) -> None:
    (settings / "rcu_expedited").write_text("1\n")
    with short_grace_periods(settings / "note") as short:
        assert short
    assert expedited(settings) == "1"


def test_where_interrupts_are_not_wanted_nothing_is_changed(settings: Path) -> None:
    (settings / "rcu_normal").write_text("1\n")
    with short_grace_periods(settings / "note") as short:
        assert (short, expedited(settings)) == (False, "0")


@pytest.mark.parametrize("gone", ["rcu_expedited", "rcu_normal"])
def test_without_the_setting_nothing_happens(settings: Path, gone: str) -> None:
    (settings / gone).unlink()
    with short_grace_periods(settings / "note") as short:
        assert not short


def test_what_a_killed_process_leaves_is_put_back_later(settings: Path) -> None:
    note = settings / "note"
    child = os.fork()
    if not child:
        with short_grace_periods(note):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert (expedited(settings), note.exists()) == ("1", True)
    put_back(note)
    assert (expedited(settings), note.exists()) == ("0", False)
    (settings / "rcu_expedited").write_text("1\n")
    put_back(note)
    assert expedited(settings) == "1", "what nobody of us has set is left alone"


def test_two_at_once_leave_it_as_it_was(settings: Path) -> None:
    """The second waits for the first, or it would take its value for the machine's."""
    entered, found = threading.Event(), list[str]()

    def second() -> None:
        entered.set()
        with short_grace_periods(settings / "note"):
            found.append(expedited(settings))

    with short_grace_periods(settings / "note"):
        other = threading.Thread(target=second)
        other.start()
        assert entered.wait(60)
        other.join(0.2)
        assert found == []
    other.join(60)
    assert (found, expedited(settings)) == (["1"], "0")
