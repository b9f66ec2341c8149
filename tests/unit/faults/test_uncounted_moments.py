"""Ports that faults take out of service, by the records of faults."""

from typing import Any

import pytest

from faults.uncounted_moments import outages_of


def record(
    event: str, mono_ns: int, mechanism: str = "ebpf", node: str = "h3", fault: str = "drop 1%"
) -> dict[str, Any]:
    link = "p0:h3>leaf3" if node == "h3" else "p0:leaf3>spine5"
    return {
        "event": event, "mono_ns": mono_ns, "mechanism": mechanism, "node": node, "interface": "p0", "link": link,
        "fault": fault,
    }  # fmt: skip


def told(*records: dict[str, Any]) -> list[str]:
    return [str(each) for each in outages_of(records, 100, 200)]


@pytest.mark.parametrize(
    ("mechanism", "node", "swaps"),
    [
        ("ebpf", "h3", True),
        ("ebpf", "p0-leaf3", False),
        ("netem", "h3", True),
        ("netem", "p0-leaf3", True),
        ("tbf", "p0-spine5", True),
        ("link", "h3", False),
    ],
)
def test_only_what_swaps_a_qdisc_counts(mechanism: str, node: str, swaps: bool) -> None:
    pair = record("FAULT_SET", 120, mechanism, node), record("FAULT_CLEAR", 150, mechanism, node)
    assert len(told(*pair)) == 2 * swaps


def test_only_between_the_moments() -> None:
    assert told(record("FAULT_SET", 99), record("FAULT_CLEAR", 201)) == []
    assert told(record("FAULT_SET", 99), record("FAULT_CLEAR", 200)) == ["p0:h3>leaf3 drop 1% by ebpf was cleared"]


def test_only_the_first_and_the_last_of_a_port() -> None:
    standing = record("FAULT_SET", 1, fault="one-in 100")
    assert told(standing, record("FAULT_SET", 120), record("FAULT_CLEAR", 150)) == []
    both = [record("FAULT_SET", 120), record("FAULT_SET", 130, fault="one-in 100"), record("FAULT_CLEAR", 140)]
    assert told(*both, record("FAULT_CLEAR", 150, fault="one-in 100")) == [
        "p0:h3>leaf3 drop 1% by ebpf was set",
        "p0:h3>leaf3 one-in 100 by ebpf was cleared",
    ]


def test_netem_and_tbf_share_a_root_and_programs_have_their_own_place() -> None:
    standing = record("FAULT_SET", 1, "tbf", fault="rate 1Mbit")
    assert told(standing, record("FAULT_SET", 120, "netem")) == []
    assert len(told(standing, record("FAULT_SET", 120, "ebpf"))) == 1


def test_other_records_are_passed_over() -> None:
    assert told({"event": "FAULT_COUNT"}) == []
