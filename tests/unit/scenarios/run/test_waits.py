"""What a run says while nothing more is acknowledged."""

from scenarios.run.waits import waits_text
from scenarios.workload.traffic import FlowProgress


def flow(in_flight: int = 0, *, ended: bool = False, silent: tuple[int, ...] = ()) -> FlowProgress:
    done = 9 if ended else None
    return FlowProgress(0, 1, "RTS", 99, 9, 9, 0, 0, 0, 1, done, in_flight_pkts=in_flight, silent_evs=silent)


def test_it_names_the_flows_the_packets_and_the_silent_paths() -> None:
    progress = [flow(ended=True), flow(16, silent=(0xC0001006,)), flow(1)]
    assert waits_text(["h0>h1", "h2>h3", "h4>h5"], progress, 3.4) == (
        "nothing acknowledged for 3 s; h2>h3, h4>h5 wait for 17 packets; nothing comes back over plane 0 spine 6"
    )


def test_one_flow_whose_data_has_arrived_waits_for_its_ack() -> None:
    told = waits_text(["h0>h1"], [flow()], 1)
    assert told == "nothing acknowledged for 1 s; h0>h1 waits for the ACK of what has arrived"


def test_many_flows_are_counted_and_those_that_have_not_begun_are_not() -> None:
    progress = [flow(1)] * 6 + [FlowProgress(0, 1, "RTS", 0, 0, 0, 0, 0, 0, None, None)]
    told = waits_text([f"h{n}>h9" for n in range(7)], progress, 2)
    assert told == "nothing acknowledged for 2 s; h0>h9, h1>h9, h2>h9 and 3 more flows wait for 6 packets"
    assert waits_text(["h6>h9"], progress[6:], 2) == ""
