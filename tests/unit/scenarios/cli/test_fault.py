"""`spraylab fault set` that is refused: the error first, then what is in force there."""

from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from scenarios.cli.lab import fault
from scenarios.cli.lab.fault import COLUMNS, MOST_ROWS, PLANNED_COLUMNS, fault_rows, folds, planned_rows
from scenarios.cli.main import main
from scenarios.errors import EnvironmentLackingError
from scenarios.lab.protocol import FaultPlanned, Faults, FaultSet, FaultState
from testbed.model.fabric import Fabric, FabricSpec


class FullDisk:
    """An owner that can write nothing down."""

    def __init__(self, _labdir: object) -> None:
        pass

    def __enter__(self) -> "FullDisk":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask(self, request: object, _reply: object) -> Any:
        if isinstance(request, FaultSet):
            raise EnvironmentLackingError("truth.jsonl: No space left on device")
        return Faults(())


def test_the_error_comes_before_what_is_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault, "Owner", FullDisk)
    monkeypatch.setattr(fault, "require_root", lambda: None)
    monkeypatch.setattr(fault, "fabric_up", lambda _: Fabric.of(FabricSpec(1, 2, 2)))
    ended = CliRunner().invoke(main, ["fault", "set", "p0:leaf0>spine1", "--drop", "1%"])
    told = ["spraylab: truth.jsonl: No space left on device", "no fault is in force there"]
    assert (ended.exit_code, ended.stderr.splitlines()) == (3, told)


STATE = FaultState(
    "p0:leaf0>spine0", "random-drop", 0.01, 0.01, "ebpf", "hand", "t5", 100, 7, 7, "drop",
    requested_text="1%", in_force_text="1%",
)  # fmt: skip
PLANNED = FaultPlanned("p0:leaf0>spine0", "random-drop", "drop", "1%", "clear", 1.24, "t", "detected", "hand")


def many(count: int, **changed: object) -> list[FaultState]:
    return [
        msgspec.structs.replace(STATE, link=f"p0:leaf{at}>spine0", since=f"t{9 - at % 5}", **changed)
        for at in range(count)
    ]


def test_few_directions_have_a_row_each():
    rows = fault_rows(many(MOST_ROWS), each=False)
    assert [row[0] for row in rows] == [f"p0:leaf{at}>spine0" for at in range(MOST_ROWS)]
    assert not folds(many(MOST_ROWS), ())


def test_many_are_told_by_fault_with_their_sum_and_what_differs_stays_apart():
    removed = msgspec.structs.replace(STATE, link="p1:leaf9>spine0", in_force_text="nothing", seen=3, dropped=0)
    states = [*many(MOST_ROWS + 1), removed]
    rows = fault_rows(states, each=False)
    assert rows == [
        ("9 directions, p0:leaf0>spine0 first", "drop 1%", "drop 1%", "ebpf", "900", "63", "hand", "t5"),
        ("p1:leaf9>spine0", "drop 1%", "nothing", "ebpf", "3", "0", "hand", "t5"),
    ]
    assert {len(row) for row in rows} == {len(COLUMNS)}
    assert folds(states, ())
    assert len(fault_rows(states, each=True)) == len(states)


def test_many_that_all_differ_are_not_told_together():
    states = [
        msgspec.structs.replace(STATE, fault=f"drop of qp {at}", requested_text=f"1% of qp {at}")
        for at in range(2 * MOST_ROWS)
    ]
    assert len(fault_rows(states, each=False)) == len(states)
    assert not folds(states, ())


def test_timelines_too():
    planned = [msgspec.structs.replace(PLANNED, link=f"p0:leaf{at}>spine0") for at in range(MOST_ROWS)]
    other = msgspec.structs.replace(PLANNED, in_s=None, event="traffic", act="set")
    rows = planned_rows([*planned, other], each=False)
    assert rows == [
        ("8 directions, p0:leaf0>spine0 first", "drop 1%", "clear", "in 1.2 s, or on detected", "hand"),
        ("p0:leaf0>spine0", "drop 1%", "set", "on traffic", "hand"),
    ]
    assert {len(row) for row in rows} == {len(PLANNED_COLUMNS)}
    assert len(planned_rows([*planned, other], each=True)) == 9
    assert folds((), [*planned, other])
