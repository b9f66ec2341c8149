"""What differs between runs, and what is not a difference."""

import tracemalloc

import msgspec
import pytest

from results.report.comparison import Difference, _row, compare, comparison_page, table_of
from results.report.run_data import read_run
from tests.support.run_folder import ROUNDS, SCENARIO, environment, write_collective_run, write_run


def test_a_run_does_not_differ_from_itself(tmp_path):
    data = read_run(write_run(tmp_path / "a"))
    found = compare([data, data, data])
    assert (found.asked, found.came_out, found.ran_on) == ([], [], [])
    assert found.same > 40


def test_settings_and_machines_differ_by_name(tmp_path):
    runs = [write_run(tmp_path / name) for name in "ab"]
    runs[1].scenario.write_text(SCENARIO.replace("seed: 1", "seed: 2\nfaults:\n- {drop: 1%}\ncapture: [x, y]\n"))
    env = msgspec.structs.replace(environment(), kernel="7.0.0", packages={"numpy": "9.9"})
    runs[1].environment.write_bytes(msgspec.json.encode(env))
    found = compare([read_run(run) for run in runs])
    assert Difference("seed", ("1", "2")) in found.asked
    assert Difference("faults.0.drop", ("–", "1%")) in found.asked
    assert Difference("capture", ("–", "x, y")) in found.asked
    assert Difference("kernel", (environment().kernel, "7.0.0")) in found.ran_on
    assert Difference("numpy", (environment().packages["numpy"], "9.9")) in found.ran_on


def test_results_differ_with_their_change(tmp_path):
    runs = [write_run(tmp_path / "a"), write_run(tmp_path / "b", outcome="fail")]
    summary = msgspec.json.decode(runs[1].summary.read_bytes())
    summary["totals"]["goodput_bps"] /= 2
    runs[1].summary.write_bytes(msgspec.json.encode(summary))
    found = compare([read_run(run) for run in runs])
    told = {one.name: one for one in found.came_out}
    assert told["outcome"].values == ("pass", "fail")
    assert told["check: the right links are named"].values == ("✓ holds", "✗ fails")
    assert told["goodput, Mb/s"].change == "-50.0%"
    assert table_of(found.came_out, 2, "").columns == ("", "A", "B", "#A to B")
    assert table_of(found.asked, 3, "the same").columns == ("", "A", "B", "C")


def test_shares_are_told_in_percent_and_change_by_points(tmp_path):
    runs = [write_run(tmp_path / "a"), write_run(tmp_path / "b")]
    summary = msgspec.json.decode(runs[1].summary.read_bytes())
    summary["load"]["sched_wait_share"] = 0.502148
    summary["detected"]["precision"] = 0.5
    runs[1].summary.write_bytes(msgspec.json.encode(summary))
    told = {one.name: one for one in compare([read_run(run) for run in runs]).came_out}
    before = msgspec.json.decode(runs[0].summary.read_bytes())["load"]["sched_wait_share"]
    waited = told["engines waited for a core"]
    assert waited.values == (f"{before:.1%}", "50.2%")
    assert waited.change == f"{50.2148 - 100 * before:+.1f} points"
    assert (told["precision"].values, told["precision"].change) == (("100.0%", "50.0%"), "-50.0 points")


def test_a_run_whose_faults_are_lost_is_not_said_to_have_none_by_hand(tmp_path):
    runs = [write_run(tmp_path / name) for name in "ab"]
    runs[1].truth.write_bytes(b"")
    found = compare([read_run(run) for run in runs])
    assert Difference("faults set by hand", ("none", "–")) in found.asked
    assert "B: truth.jsonl: empty" in found.problems


def test_faults_set_by_hand_and_attached_labs_are_told_first(tmp_path, plainly_drawn):
    runs = [write_run(tmp_path / name) for name in "abc"]
    runs[1].truth.write_text(runs[1].truth.read_text().replace('"by":"scenario"', '"by":"hand"'))
    env = environment()
    runs[1].environment.write_bytes(msgspec.json.encode(msgspec.structs.replace(env, attached=True)))
    older = msgspec.structs.replace(env, attached=None, command=("spraylab", "run", "--attach", "gray-link"))
    runs[2].environment.write_bytes(msgspec.json.encode(older))
    found = compare([read_run(run) for run in runs])
    assert [remark.partition(" ")[0] for remark in found.remarks] == ["B:", "B:", "C:"]
    assert "p0:leaf3>spine5 drop 1%" in found.remarks[0]
    assert "--attach" in found.remarks[1]
    assert Difference("faults set by hand", ("none", "p0:leaf3>spine5 drop 1%", "none")) in found.asked
    assert Difference("lab", ("its own", "was up before", "was up before")) in found.asked
    html = comparison_page([read_run(run) for run in runs])
    assert html.index('id="remarks"') < html.index('id="came-out"')
    assert "remarks" not in comparison_page([read_run(runs[0]), read_run(runs[0])])


def test_what_a_fault_did_in_all_its_times_is_one_difference(tmp_path):
    runs = [write_run(tmp_path / "a"), write_run(tmp_path / "b")]
    summary = msgspec.json.decode(runs[1].summary.read_bytes())
    summary["injected"] = [summary["injected"][0] | {"kind": "corrupt", "dropped": 0, "hit": 7}] * 2
    runs[1].summary.write_bytes(msgspec.json.encode(summary))
    found = compare([read_run(run) for run in runs]).came_out
    assert Difference("p0:leaf3>spine5 corrupt: hit", ("–", "14")) in found


def test_what_only_a_later_run_has_stands_where_it_has_it(tmp_path):
    runs = [write_run(tmp_path / "a"), write_run(tmp_path / "b")]
    summary = msgspec.json.decode(runs[1].summary.read_bytes())
    summary["injected"][0]["link"] = "p1:leaf0>spine0"
    summary["totals"]["flows"] = 1
    runs[1].summary.write_bytes(msgspec.json.encode(summary))
    names = [one.name for one in compare([read_run(run) for run in runs]).came_out]
    assert names == ["p0:leaf3>spine5 drop: dropped", "p1:leaf0>spine0 drop: dropped", "flows"]


def test_a_run_without_summary_can_be_compared(tmp_path):
    runs = [write_run(tmp_path / "a"), write_run(tmp_path / "b")]
    runs[1].summary.unlink()
    found = compare([read_run(run) for run in runs])
    assert Difference("outcome", ("pass", "no summary")) in found.came_out


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((18.4, 20.54), ("18.40", "20.54")),
        ((0.5, 0.25), ("0.50", "0.25")),
        ((5000.0, 1234567.0), ("5,000", "1,234,567")),
    ],
)
def test_values_beside_each_other_have_as_many_digits(values: tuple[float, float], shown: tuple[str, str]) -> None:
    assert _row("seconds", values).values == shown


def test_collectives_are_compared_by_their_times_and_rates(tmp_path):
    slower = msgspec.structs.replace(ROUNDS, time_us=2 * ROUNDS.time_us, busbw_bytes_per_s=ROUNDS.busbw_bytes_per_s / 2)
    runs = [write_collective_run(tmp_path / "a"), write_collective_run(tmp_path / "b", slower)]
    told = {one.name: one for one in compare([read_run(run) for run in runs]).came_out}
    assert set(told) == {"all-reduce 8 MiB: time of a round, ms", "all-reduce 8 MiB: busbw, GB/s"}
    assert told["all-reduce 8 MiB: time of a round, ms"].values == ("688.9", "1,377.8")
    assert told["all-reduce 8 MiB: busbw, GB/s"].change == "-50.0%"


def test_a_scenario_whose_aliases_blow_up_is_not_compared(tmp_path):
    runs = [write_run(tmp_path / name) for name in "ab"]
    levels = (f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10))
    runs[1].scenario.write_text("\n".join(["a0: &a0 [x, x]", *levels]))
    tracemalloc.start()
    found = compare([read_run(run) for run in runs])
    assert tracemalloc.get_traced_memory()[1] < 100 << 20
    tracemalloc.stop()
    assert "B: scenario.yaml: line 2: a YAML alias is used" in found.problems
    assert "B: scenario.yaml: 6 more flaws" in found.problems


def test_what_only_one_run_has_stands_in_the_order_of_the_runs(tmp_path):
    larger = msgspec.structs.replace(ROUNDS, size_bytes=16 << 20)
    runs = [read_run(write_collective_run(tmp_path / name, rounds)) for name, rounds in (("a", ROUNDS), ("b", larger))]
    names = [row.name for row in compare(runs).came_out if row.name.endswith("busbw, GB/s")]
    assert names == ["all-reduce 8 MiB: busbw, GB/s", "all-reduce 16 MiB: busbw, GB/s"]
