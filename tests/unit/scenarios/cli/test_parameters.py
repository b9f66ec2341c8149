"""`--engine`, and what a plan makes of hosts that move packets by Scapy."""

import click
import pytest

from scenarios.cli.parameters import EngineWanted, _engine
from scenarios.errors import ScenarioRefusedError, UsageError
from scenarios.file.model import Scenario
from scenarios.file.plan import plan_of
from scenarios.file.transport import Transport
from scenarios.file.transport_checks import engine_misfits, misfits
from scenarios.run.judge.plan_warnings import warnings_of

SCENARIO = Scenario.model_validate(
    {
        "version": 1, "name": "x", "topology": {"planes": 2, "leaves": 4, "spines": 2},
        "workloads": ({"type": "write", "strides": (1, 2), "packets": 4096},),
    }
)  # fmt: skip


def parsed(text: str) -> EngineWanted | None:
    return _engine(click.Context(click.Command("x")), click.Option(["--engine"]), text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ring", ("ring", None)),
        ("scapy", ("scapy", None)),
        ("scapy:h0,h3", ("scapy", (0, 3))),
        ("scapy:2", ("scapy", (2,))),
    ],
)
def test_an_engine_is_for_all_or_for_named_hosts(text, wanted):
    assert parsed(text) == EngineWanted(*wanted)


@pytest.mark.parametrize("text", ["", "fast", "scapy:", "scapy:leaf0", "ring:h0", "scapy:h0,", "scapy:-1"])
def test_anything_else_is_refused(text):
    with pytest.raises(click.BadParameter):
        parsed(text)


def test_it_takes_the_place_of_what_the_scenario_says():
    chosen = EngineWanted("scapy", (3, 1)).applied(SCENARIO)
    assert chosen.transport.scapy_hosts(4) == (1, 3)
    assert EngineWanted("ring", None).applied(chosen).transport.scapy_hosts(4) == ()
    assert EngineWanted("scapy", None).scapy_hosts(3) == (0, 1, 2)


def test_hosts_that_are_not_there_are_named():
    with pytest.raises(ScenarioRefusedError, match=r"engine_hosts: h4 is not one of 4 hosts"):
        EngineWanted("scapy", (4,)).applied(SCENARIO)
    with pytest.raises(UsageError, match="there is no h4; hosts are h0 to h3"):
        EngineWanted("scapy", (4,)).scapy_hosts(4)
    assert [each.key for each in engine_misfits(Transport(engine="scapy", engine_hosts=(0, 9)), 4)] == [
        ("engine_hosts",)
    ]


def test_hosts_without_an_engine_make_no_sense():
    assert [each.key for each in misfits(Transport(engine_hosts=(0,)))] == [("engine_hosts",)]


def test_windows_are_what_scapy_gets_done_in_half_a_timeout():
    plan = plan_of(EngineWanted("scapy", (0,)).applied(SCENARIO))
    assert plan_of(SCENARIO).window_pkts == 256
    assert plan.window_pkts == 62, "500 ms / 2 / 4 queue pairs from and to h0, 1 ms a packet"
    assert any("handles by Scapy in half of ack_timeout_ms" in text for text in warnings_of(plan))
