"""The page for people and the record for programs say the same."""

import msgspec
from msgspec import structs

from results.metrics import totals_of
from results.records.rejected import Rejected
from results.summary import (
    SHOWN_FLOWS,
    SHOWN_REASONS,
    Accusation,
    CaptureResult,
    Check,
    Detected,
    FlowResult,
    Injected,
    LabChange,
    Load,
    StageTime,
    Summary,
    size_text,
    summary_json,
    summary_text,
)
from tests.unit.results.test_perf_rows import row

FLOW = FlowResult("h3", "h4", 0x4001, "RTS", 16 << 20, 16 << 20, 65536, 82, 0, 5.0, 26_843_545.6, 16 << 20, 0)


def summary(flows: tuple[FlowResult, ...] = (FLOW,)) -> Summary:
    return Summary(
        v=1,
        run="20260304T050607Z-gray-link-1",
        scenario="gray-link",
        seed=1,
        outcome="pass",
        fabric="8x8x2, 1 host a leaf",
        folder="runs/20260304T050607Z-gray-link-1",
        totals=totals_of(flows, 5_000_000_000),
        flows=flows,
        injected=(
            Injected("p0:leaf3>spine5", "random-drop", 0.01, 0.01, "ebpf", "scenario", 8200, 82, 82, 82, "1%", "1%"),
        ),
        detected=Detected(
            "named",
            (Accusation("p0:leaf3>spine5", "spraycheck", ("p0-leaf4", "p0-leaf6"), 5.25, True),),
            (),
            (),
            {"failed": 2, "healthy": 254},
            256,
            1.0,
            1.0,
        ),
        checks=(Check("the right links are named", True, "p0:leaf3>spine5 and no other"),),
        load=Load(False, (), 0, 0, 0, 0, 64, 0.01),
        captures=(CaptureResult("pcap/p0_leaf3-spine5.leaf3-spine5.pcap", 16000, 0),),
        stages=(StageTime("plan", 0.1),),
    )


def test_json_reads_back_as_the_same_record() -> None:
    assert msgspec.json.decode(summary_json(summary()), type=Summary) == summary()


def test_page_says_what_agents_rejected_and_only_then() -> None:
    assert "Rejected" not in summary_text(summary())
    rows = Rejected("h2", "BAD_ICRC", 1200), Rejected("h4", "NEW_REASON", 1)
    page = summary_text(structs.replace(summary(), load=structs.replace(summary().load, rejected=rows)))
    assert "Rejected  h2: 1,200 packets with a wrong ICRC (BAD_ICRC)\n          h4: 1 packet (NEW_REASON)\n" in page


def test_page_says_what_was_injected_and_detected_by_whom_and_when() -> None:
    page = summary_text(summary())
    assert page.splitlines()[0] == "gray-link  seed 1  8x8x2, 1 host a leaf  PASS"
    assert "p0:leaf3>spine5 drop 1% by ebpf (in force as asked, read back): 8,200 packets seen, 82 dropped" in page
    assert "p0:leaf3>spine5 by SprayCheck on p0-leaf4, p0-leaf6, 5.25 s after the first packet: right" in page
    assert "h3>h4" in page
    assert max(map(len, page.splitlines())) <= 120


def test_page_tells_what_somebody_else_changed_and_does_not_score_it() -> None:
    links = ("p0:leaf3>spine5", "p0:spine5>leaf3")
    change = LabChange("p0-spine5", "leaf3", "mtu", "9000", "1500", "has MTU 1500, planned 9000", links, "after")
    said = summary().detected
    named = tuple(msgspec.structs.replace(each, right=False, changed=True) for each in said.named)
    changed = msgspec.structs.replace(
        summary(), injected=(), changed=(change,), detected=msgspec.structs.replace(said, named=named)
    )
    page = summary_text(changed)
    assert "Changed   p0-spine5 port leaf3 has MTU 1500, planned 9000, found after the run" in page
    assert "by somebody else, not by spraylab" in page
    assert "neither right nor wrong: somebody else changed it" in page
    assert "WRONG" not in page
    assert "Changed" not in summary_text(summary())


def test_page_says_how_much_of_packets_is_kept_and_which_file_is_full() -> None:
    file = "pcap/p10_leaf10-spine10.leaf10-spine10.pcap"
    captures = (CaptureResult(file, 1, 0, 256), CaptureResult(file, 10_000_000, 0, 65535, True))
    page = summary_text(msgspec.structs.replace(summary(), captures=captures))
    assert "1 packet of up to 256 bytes" in page
    assert page.count("FULL: it reached its share of limits.captures") == 1
    assert max(map(len, page.splitlines())) <= 120


def test_page_says_what_went_wrong() -> None:
    bad = msgspec.structs.replace(
        summary((msgspec.structs.replace(FLOW, bytes_wrong=3, seconds=None, goodput_bps=None, state="ERROR"),)),
        outcome="fail",
        injected=(),
        detected=Detected("ambiguous", (), (("a", "b"),), ("c",), {}, 16, None, 0.0),
        checks=(Check("all data is right", False, "3 bytes"),),
        load=Load(True, ("slow",), 1, 0, 0, 0, 64, 0.5),
        captures=(CaptureResult("x.pcap", None, None),),
    )
    page = summary_text(bad)
    wrong = (
        "FAIL",
        "3 bytes wrong",
        "ERROR",
        "Injected  nothing",
        "one of a, b",
        "c was MISSED",
        "OVERLOADED: slow",
        "stop other work and run again",
    )
    assert [told for told in wrong if told not in page] == []


def test_page_sets_the_scenarios_word_beside_the_truth() -> None:
    other = "p1:spine2>leaf6"
    by_hand = Injected(other, "random-drop", 0.02, 0.02, "ebpf", "hand", 5000, 99, 99, 99, "2%", "2%")
    named = (Accusation(other, "spraycheck", ("p1-leaf6",), None, True),)
    said = Detected("named", named, (), (), {"failed": 1}, 16, 1.0, 1.0, ("p0:leaf3>spine5",))
    page = summary_text(msgspec.structs.replace(summary(), injected=(by_hand,), detected=said))
    assert "the scenario expects p0:leaf3>spine5" in page
    assert f"{other} by SprayCheck on p1-leaf6: not expected (it does drop, set by hand)" in page
    assert "p0:leaf3>spine5 was not named; it dropped nothing" in page


def test_page_groups_why_verdicts_say_nothing() -> None:
    why = {"128 packets a path, a drop of 1% needs about 1,799": 252, "short, and so may be other paths": 8}
    said = Detected("none", (), (), (), {"insufficient": 260}, 260, None, None, None, why)
    page = summary_text(msgspec.structs.replace(summary(), detected=said))
    assert "insufficient: 252: 128 packets a path, a drop of 1% needs about 1,799" in page
    assert "insufficient: 8: short, and so may be other paths" in page


def test_page_says_how_many_verdicts_are_those_of_several_flows() -> None:
    said = Detected("none", (), (), (), {"healthy": 260}, 260, None, None, None)
    assert "several flows" not in summary_text(msgspec.structs.replace(summary(), detected=said))
    page = summary_text(msgspec.structs.replace(summary(), detected=msgspec.structs.replace(said, added_up=1)))
    assert "1 path judged only by several flows together; each alone is too small" in page


def test_page_tells_how_often_healthy_runs_are_accused_where_that_is_stated_for_a_run() -> None:
    said = Detected("none", (), (), (), {"healthy": 16}, 16, None, None, run_alarm=1e-3, run_tests=8192)
    line = "at most 0.1% of healthy runs have anything flagged (stated, over 8,192 tests)"
    declared = msgspec.structs.replace(said, expectation="declared")
    assert line in summary_text(msgspec.structs.replace(summary(), detected=declared))
    assert line not in summary_text(msgspec.structs.replace(summary(), detected=said))


def test_many_flows_are_left_to_the_json() -> None:
    page = summary_text(summary((FLOW,) * (SHOWN_FLOWS + 1)))
    assert "h3>h4" not in page
    assert f"{SHOWN_FLOWS + 1} flows" in page


def test_sizes() -> None:
    assert [size_text(n) for n in (1, 1024, 16 << 20, 3 << 29)] == ["1 B", "1 KiB", "16 MiB", "1.5 GiB"]


def test_page_shows_collectives_and_who_was_not_announced() -> None:
    data = structs.replace(FLOW, workload="all-reduce", bytes_verified=0)
    told = summary((data, *[structs.replace(data, payload_bytes=5, acked_bytes=5, packets=5, is_barrier=True)] * 3))
    told = structs.replace(
        told, collectives=(row(1024, 1234.5, 0),), detected=structs.replace(told.detected, unannounced=52)
    )
    text = summary_text(told)
    assert "checked round of all-reduce" in text
    assert any(line.split()[-3:] == ["0", "2.0", "all-reduce"] for line in text.splitlines()), "wrong, median, name"
    assert sum(line.startswith("h3>h4") for line in text.splitlines()) == 1
    assert ["barriers", "15", "B", "15", "246", "on", "3", "queue", "pairs"] in [
        line.split() for line in text.splitlines()
    ]
    assert "Traffic   1 flow and 3 queue pairs of barriers, 16.0 MiB of 16.0 MiB in" in text
    assert "0 timeouts; 1,024 numbers of one round verified, 0 wrong" in text
    wrong = summary_text(structs.replace(told, collectives=(row(1024, 1234.5, 12),)))
    assert "all-reduce: 12 numbers wrong" in wrong
    assert "all-reduce did not end" in summary_text(structs.replace(told, collectives=()))
    assert "flow at a time: 52 queue pairs" in text


def test_page_names_flows_that_leaves_had_no_room_for() -> None:
    told, many = summary(), {f"h{at}>h4 at p0-leaf{at}: no room": 9 - at for at in range(9)}
    text = summary_text(structs.replace(told, detected=structs.replace(told.detected, unmeasured=many)))
    assert "not measured: 9: h0>h4 at p0-leaf0: no room" in text
    assert f"not measured: {sum(range(1, 10 - SHOWN_REASONS))}: others, see UNMEASURED in detect.jsonl" in text


def page_with(*injected: Injected) -> list[str]:
    return summary_text(structs.replace(summary(), injected=injected)).splitlines()


def test_what_a_shut_port_cost_the_other_way_is_told() -> None:
    reboot = Injected("p0:spine2>leaf0", "reboot", None, None, "link", "scenario", 0, 0, None, 47, "300ms", "300ms", 47)
    page = "\n".join(page_with(reboot))
    told = "p0:spine2>leaf0 reboot 300ms by link (in force as asked, read back): 0 packets seen, 0 dropped, 47 lost"
    assert told in page


def test_a_fault_is_said_again_only_where_the_kernel_holds_another() -> None:
    words = "100ms every 200ms, 5 times, jitter 10ms"
    flap = Injected("a", "flap", None, None, "link", "scenario", 0, 3, None, 3, words, words)
    (line,) = (told for told in page_with(flap) if words in told)
    assert line.count(words) == 1
    page = "\n".join(page_with(structs.replace(flap, in_force_text="100ms")))
    assert f"a flap {words} by link (flap 100ms in force, read back)" in page


def test_faults_that_met_no_packet_share_a_line_others_have_their_own() -> None:
    def drop(link: str, seen: int) -> Injected:
        return Injected(link, "random-drop", 1.0, 1.0, "ebpf", "scenario", seen, seen, seen, seen, "100%", "100%")

    told = [line for line in page_with(drop("a", 0), drop("b", 1), drop("c", 0), drop("d", 1)) if "100%" in line]
    assert [line.removeprefix("Injected").split()[0] for line in told] == ["a", "b", "d"]
    assert "a and 1 more, each drop 100% by ebpf" in told[0]
    assert told[0].endswith("0 packets seen, 0 dropped")
    assert told[1].endswith("1 packet seen, 1 dropped (data)")


def test_what_is_only_recorded_is_no_miss() -> None:
    said = Detected("none", (), (), ("c",), {}, 16, None, 0.0, ("c",), decides=False)
    page = summary_text(structs.replace(summary(), detected=said))
    assert page.count("recorded, decides nothing") == 1
    assert "c was not named" in page
    assert "MISSED" not in page


def test_a_long_reason_is_wrapped_between_words() -> None:
    why = "packets were lost, but not more than on the flow's other paths: they may be lost before the paths part"
    said = Detected("none", (), (), (), {"insufficient": 2}, 2, None, None, None, {why: 2})
    page = summary_text(structs.replace(summary(), detected=said))
    assert why in " ".join(page.split())
    assert max(map(len, page.splitlines())) <= 120


def test_one_flow_is_one_flow() -> None:
    assert "1 flow, 16 MiB of 16 MiB" in summary_text(summary())


def test_many_faults_of_a_kind_share_a_line_with_their_sums() -> None:
    def drop(link: str, seen: int) -> Injected:
        return Injected(
            link, "random-drop", 0.05, 0.05, "ebpf", "scenario", seen, seen // 20, seen // 20, 1, "5%", "5%"
        )

    told = page_with(*(drop(f"p0:leaf{at % 64}>spine0", 20 * at) for at in range(128)))
    (line,) = [each for each in told if "drop 5%" in each]
    assert "p0:leaf0>spine0 and 63 more, each drop 5% by ebpf (in force as asked, read back): 162,560 packets" in line
    assert "8,128 dropped (all data) in sum of 128; 1 met no packet" in line
    assert len([each for each in page_with(*(drop(f"p0:leaf{at}>spine0", 20) for at in range(8))) if "5%" in each]) == 8


def test_a_fault_that_met_no_packet_gets_a_word() -> None:
    idle = Injected("a", "random-drop", 1.0, 1.0, "ebpf", "scenario", 0, 0, 0, 0, "100%", "100%")
    met = structs.replace(idle, link="b", seen=9)
    assert any("warning: the fault met no packet" in line for line in page_with(idle))
    assert any("warning: 1 of 2 faults met no packet" in line for line in page_with(idle, met))
    assert not any("met no packet" in line for line in page_with(met))
    shut = Injected("a", "down", None, None, "link", "scenario", 0, 0, None, 0, "", "")
    assert not any("met no packet" in line for line in page_with(shut)), "nobody counts what a shut port is spared"
