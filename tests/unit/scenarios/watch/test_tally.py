"""From readings to views: rates, sums of the latest run, what is accused, and what has died."""

from dataclasses import replace

import msgspec
import pytest

from results.files.event_log import Fields, timestamp
from scenarios.lab.protocol import FaultPlanned
from scenarios.watch.frame import whole_frame
from scenarios.watch.snapshot import View
from scenarios.watch.tables import fault_lines, flow_lines
from scenarios.watch.tally import Tally
from tests.unit.scenarios.watch_readings import BAD, FABRIC, SECOND, ev, fault, localize, reading, sender, status


def losses(view: View) -> dict[str, float | None]:
    return {link.link: link.loss for link in view.links}


def test_goodput_is_what_was_acknowledged_between_two_readings() -> None:
    tally = Tally(FABRIC)
    first = tally.take(reading(10.0, qps=(sender(0),)))
    second = tally.take(reading(12.0, qps=(sender(500_000),)))
    assert (first.seconds, first.flows[0].goodput_bps) == (None, None)
    assert (second.seconds, second.flows[0].goodput_bps) == (2.0, 2_000_000.0)
    assert second.flows[0].acked_bytes == 500_000


def test_a_queue_pair_that_takes_a_number_anew_has_no_rate_at_first() -> None:
    tally = Tally(FABRIC)
    tally.take(reading(0.0, qps=(sender(900_000),)))
    assert tally.take(reading(1.0, qps=(sender(1000),))).flows[0].goodput_bps is None


def test_queue_pairs_that_send_nothing_are_no_flows_and_have_no_paths_in_use() -> None:
    view = Tally(FABRIC).take(reading(0.0, qps=(sender(0, posted=0),), evs=(ev(0, 0, 0),)))
    assert (view.flows, view.evs) == ((), ())


def test_a_flow_is_done_when_all_that_its_program_sends_is_acknowledged_and_barriers_are_no_flows() -> None:
    round_1 = sender(100_000, posted=100_000, total_bytes=1_000_000, peer_qpn=0x2001)
    barriers = sender(5, posted=5, qpn=2, total_bytes=9, only_barriers=True)
    timed = sender(5_000, posted=6_000, qpn=3)
    view = Tally(FABRIC).take(reading(0.0, qps=(round_1, barriers, timed)))
    assert [(flow.qpn, flow.destination_qpn, flow.total_bytes) for flow in view.flows] == [
        (1, 0x2001, 1_000_000), (3, None, None),
    ]  # fmt: skip
    shown = [line.plain.split() for line in flow_lines(view, wide=True)]
    assert [line[1:3] + line[-2:-1] for line in shown[2:4]] == [["0x1", "0x2001", "10%"], ["0x3", "-", "-"]]
    assert " ".join(shown[-1]) == "and 1 queue pair of barriers"


def test_a_run_that_ended_before_the_view_began_is_not_sampled() -> None:
    tally, ended = Tally(FABRIC), replace(reading(0.0), running=False)
    unread = tally.take(ended)
    assert not unread.sampled
    shown = whole_frame(unread).plain
    assert "leaf0 ??" in shown
    assert "not sampled: run 1 ended before this view" in shown
    assert Tally(FABRIC).take(replace(ended, status=status(epoch=0))).sampled
    watched = Tally(FABRIC)
    watched.take(reading(0.0, qps=(sender(1),), evs=(ev(1, 1, 1000),)))
    assert watched.take(ended).sampled


def test_losses_are_summed_over_queue_pairs_that_come_and_go() -> None:
    tally = Tally(FABRIC)
    tally.take(reading(0.0, qps=(sender(1),), evs=(ev(1, 1, 1000, 20), ev(1, 0, 1000))))
    tally.take(reading(1.0, qps=(sender(1),), evs=(ev(1, 1, 2000, 40), ev(1, 0, 2000))))
    tally.take(reading(2.0))
    view = tally.take(reading(3.0, qps=(sender(1, qpn=2),), evs=(ev(1, 1, 2000, 40, qpn=2), ev(1, 0, 2000, qpn=2))))
    assert losses(view) == {BAD: 0.02, "p1:spine1>leaf1": 0.02, "p1:leaf0>spine0": 0.0, "p1:spine0>leaf1": 0.0}
    assert {link.sent for link in view.links} == {4000}


def test_counters_that_begin_anew_are_taken_from_zero() -> None:
    tally = Tally(FABRIC)
    tally.take(reading(0.0, qps=(sender(1),), evs=(ev(1, 1, 1000),)))
    view = tally.take(reading(1.0, qps=(sender(1),), evs=(ev(1, 1, 100),)))
    assert {link.sent for link in view.links} == {1100}


def test_a_new_run_begins_with_nothing_seen_and_nobody_accused() -> None:
    tally = Tally(FABRIC)
    lossy = (ev(1, 1, 1000, 20),)
    old = tally.take(reading(0.0, qps=(sender(1),), evs=lossy, records=(localize([BAD]),)))
    new = tally.take(reading(1.0, status=status(epoch=2), qps=(sender(1),), evs=lossy, records=(localize([BAD]),)))
    assert losses(old)[BAD] == 0.02
    assert [link.link for link in old.links if link.named] == [BAD]
    assert [link for link in new.links if link.sent or link.named] == []
    assert (new.detections, new.verdicts, new.run) == ((), {}, 2)


def link(verdict: str, by: str = "declared", name: str = BAD) -> Fields:
    return {"event": "LINK", "ts": "", "mono_ns": 1, "epoch": 1, "expectation": by, "link": name, "verdict": verdict,
            "flows": 2}  # fmt: skip


def path(verdict: str, by: str = "declared") -> Fields:
    place = {
        "plane": 0,
        "src_leaf": 1,
        "spine": 1,
        "dst_leaf": 0,
        "by": "flow",
        "flows": 1,
        "count": 9,
        "p_value": None,
    }
    return {
        "event": "PATH",
        "ts": "",
        "mono_ns": 1,
        "epoch": 1,
        "expectation": by,
        "verdict": verdict,
        "lambda": 9.0,
    } | place


def test_links_and_paths_are_counted_by_the_last_word_on_each() -> None:
    tally = Tally(FABRIC)
    records = (link("undecided"), link("healthy"), link("failed", name="p1:spine1>leaf1"), path("insufficient"))
    view = tally.take(reading(0.0, records=(*records, path("healthy"))))
    assert (view.verdicts, view.paths) == ({"healthy": 1, "failed": 1}, {"healthy": 1})
    after = tally.take(reading(1.0, status=status(epoch=2)))
    assert (after.verdicts, after.paths) == ({}, {})


def test_verdicts_are_those_of_the_expectation_that_decides() -> None:
    told = (link("failed", "uniform"), link("healthy", "declared"))
    for deciding, counted in (("declared", {"healthy": 1}), ("uniform", {"failed": 1})):
        now = msgspec.structs.replace(status(), expectation=deciding)
        assert Tally(FABRIC).take(reading(0.0, status=now, records=told)).verdicts == counted


def test_a_flap_is_shown_in_its_open_phase() -> None:
    coming = FaultPlanned(BAD, "flap", "flap", "period=2s", "set", 0.5, timestamp(1_800_000_000 * SECOND), None, "hand")
    ending = msgspec.structs.replace(coming, act="clear")
    view = Tally(FABRIC).take(reading(0.0, status=msgspec.structs.replace(status(), planned=(coming, ending))))
    (planned,) = view.planned
    assert (planned.link, planned.act, planned.event) == (BAD, "set", None)
    head, line = fault_lines(view, None)
    assert head.plain.startswith("FAULTS")
    assert line.plain == f"{BAD} flap period=2s not in force now, set at 08:00:00"


def test_a_link_with_a_fault_is_shown_though_nothing_crossed_it() -> None:
    view = Tally(FABRIC).take(reading(0.0, status=status(faults=(fault(100, 2), fault(100, 2)))))
    assert [(link.link, link.sent, link.loss, link.faults, link.named) for link in view.links] == [
        (BAD, 0, None, 2, False)
    ]
    assert (view.faults[0].dropped, view.faults[0].seen, view.faults[0].in_force) == (2, 100, "2%")


def test_detections_are_told_when_they_change() -> None:
    said = [
        localize([], 1),
        localize([BAD], 2, pending=3),
        localize([BAD], 3, pending=1),
        localize([BAD], 4),
        localize([], 5, expectation="declared"),
        localize([], 6, candidates=[[BAD, "p1:spine1>leaf1"]], expectation="declared"),
        {"event": "DENY", "ts": "t", "node": "controller", "epoch": 1, "link": BAD, "by": "hand", "v": 1},
        localize([BAD], 7, epoch=0),
    ]
    view = Tally(FABRIC).take(reading(8.0, records=tuple(said)))
    assert [each.text for each in view.detections] == [
        f"names {BAD} (uniform, preliminary)",
        f"names {BAD} (uniform)",
        f"names one of {BAD}, p1:spine1>leaf1 (declared)",
        f"{BAD} denied by hand",
    ]


def test_what_is_taken_back_is_no_longer_named() -> None:
    tally = Tally(FABRIC)
    assert any(link.named for link in tally.take(reading(0.0, records=(localize([BAD]),))).links)
    view = tally.take(reading(1.0, records=(localize([]),)))
    assert not any(link.named for link in view.links)
    assert view.detections[-1].text == "names no link (uniform)"


@pytest.mark.parametrize("state", ["ASSUMED_BAD", "DENIED"])
def test_paths_out_of_use_are_named(state: str) -> None:
    rows = (ev(0, 0, 5), ev(1, 1, 5, state=state), ev(1, 0, 5))
    view = Tally(FABRIC).take(reading(0.0, qps=(sender(1),), evs=rows))
    assert view.evs[0].states == {"GOOD": 2, state: 1}
    assert view.evs[0].not_good == (f"p1:spine1 {state}",)


def test_paths_that_agents_retire_and_use_again_are_told_once_a_host() -> None:
    tally, qps = Tally(FABRIC), (sender(1), sender(1, qpn=2))
    both = [(ev(1, 1, 5, state=state), ev(0, 1, 5, state=state), ev(1, 1, 5, state=state, qpn=2))
            for state in ("GOOD", "ASSUMED_BAD", "SKIP", "ASSUMED_BAD", "GOOD")]  # fmt: skip
    told = [tally.take(reading(at, qps=qps, evs=evs)).detections for at, evs in enumerate(both)]
    assert [len(each) for each in told] == [0, 1, 1, 1, 2]
    assert [(each.node, each.text) for each in told[-1]] == [
        ("h0", "retires p1:spine1, p0:spine1 (MRC)"),
        ("h0", "uses again p1:spine1, p0:spine1 (MRC)"),
    ]


def test_who_died_or_does_not_answer_is_told_once() -> None:
    dead = status(state="killed by SIGKILL")
    view = Tally(FABRIC).take(reading(0.0, status=dead, silent=("worker0", "worker1")))
    assert view.troubles == ("worker0 killed by SIGKILL", "worker1 does not answer")
