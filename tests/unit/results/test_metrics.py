"""Numbers from what was recorded."""

import pytest

from results.metrics import per_second, precision, recall, span_ns, totals_of
from results.summary import FlowResult


def flow(**change: object) -> FlowResult:
    fields: dict[str, object] = {
        "source": "h0", "destination": "h1", "qpn": 1, "state": "RTS", "payload_bytes": 1000, "acked_bytes": 1000,
        "packets": 4, "retransmissions": 1, "timeouts": 0, "seconds": 1.0, "goodput_bps": 8000.0,
        "bytes_verified": 1000, "bytes_wrong": 0,
    }  # fmt: skip
    return FlowResult(**(fields | change))  # type: ignore[arg-type]


def test_totals_add_up() -> None:
    totals = totals_of([flow(), flow(packets=6, timeouts=2)], 2_000_000_000)
    assert (totals.flows, totals.payload_bytes, totals.packets, totals.retransmissions, totals.timeouts) == (
        2,
        2000,
        10,
        2,
        2,
    )
    assert totals.retransmission_share == pytest.approx(0.2)
    assert totals.goodput_bps == pytest.approx(8000)
    assert totals.packets_per_s == pytest.approx(5)


def test_totals_of_a_run_that_did_not_end_have_no_rate() -> None:
    totals = totals_of([flow()], None)
    assert (totals.seconds, totals.goodput_bps, totals.packets_per_s) == (None, None, None)


def test_span_reaches_from_the_first_start_to_the_last_end() -> None:
    assert span_ns([(5, 9), (3, 7)]) == 6
    assert span_ns([(5, 9), (3, None)]) is None
    assert span_ns([]) is None


def test_a_rate_needs_a_duration() -> None:
    assert per_second(10, 0) is None
    assert per_second(10, 500_000_000) == 20


def test_precision_and_recall() -> None:
    assert precision({"a", "b"}, {"a"}) == 0.5
    assert recall({"a"}, {"a", "b"}) == 0.5
    assert precision(set(), {"a"}) is None
    assert recall({"a"}, set()) is None
