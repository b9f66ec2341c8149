"""Steady goodput, told from progress records and held against what was expected."""

from msgspec.structs import replace

from results.summary import Check, FlowResult
from scenarios.file.model import Expectation
from scenarios.run.judge.goodput import goodput_check

S = 10**9
FIRST_NS = 50 * S
ALL = 10_000_000
FLOW = FlowResult("h0", "h1", 1, "RTS", ALL, ALL, 1, 0, 0, 1.0, 1.0, ALL, 0)
OTHER = replace(FLOW, source="h2")


def progress(*rates: float, seconds: float = 4.0) -> list[dict[str, object]]:
    """Four records a second, flow n acknowledging `rates[n]` bytes a second, the other events between them."""
    steps = range(int(seconds * 4) + 1)
    told = [
        {
            "event": "PROGRESS",
            "mono_ns": FIRST_NS + n * S // 4,
            "acked_bytes": [min(ALL, int(rate * n / 4)) for rate in rates],
        }
        for n in steps
    ]
    return [{"event": "LOAD", "mono_ns": FIRST_NS}, *told]


def check(
    *rates: float, least: str = "7Mbit", after_s: float = 1, flows: tuple[FlowResult, ...] = (FLOW, OTHER)
) -> Check:
    return goodput_check(Expectation(goodput=least, goodput_after_s=after_s), progress(*rates), flows, FIRST_NS)


def test_all_flows_as_fast_as_wanted() -> None:
    told = check(1_000_000, 2_000_000)
    assert (told.ok, told.detail) == (True, "at least 8.0 Mb/s a flow, 7Mbit wanted")


def test_the_slow_one_is_named_with_its_rate() -> None:
    told = check(2_000_000, 500_000)
    assert (told.ok, told.detail) == (False, "4.0 Mb/s (h2>h1), 7Mbit wanted")


def test_the_time_after_all_is_sent_does_not_count() -> None:
    told = check(5_000_000, 5_000_000, least="39Mbit", after_s=0)
    assert (told.ok, told.detail) == (True, "at least 40.0 Mb/s a flow, 39Mbit wanted")


def test_what_came_before_does_not_count() -> None:
    records = [*progress(2_000_000, seconds=1)]
    records += [each | {"mono_ns": each["mono_ns"] + S} for each in progress(0, seconds=2)]  # type: ignore[operator]
    slow = goodput_check(Expectation(goodput="7Mbit", goodput_after_s=1), records, (FLOW,), FIRST_NS)
    assert not slow.ok


def test_a_flow_too_short_to_be_measured_does_not_pass() -> None:
    told = check(9_000_000, 2_000_000)
    assert (told.ok, told.detail) == (False, "h0>h1 ended before it could be measured, 7Mbit wanted")
    assert not goodput_check(Expectation(goodput="8kbit"), [], (FLOW,), None).ok


def test_barriers_of_collectives_have_no_rate_to_keep() -> None:
    barrier = replace(OTHER, payload_bytes=5, acked_bytes=5, is_barrier=True)
    told = check(1_000_000, 2_000_000, flows=(FLOW, barrier))
    assert (told.ok, told.detail) == (True, "at least 8.0 Mb/s a flow, 7Mbit wanted")
