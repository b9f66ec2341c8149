"""A node beside its plan: what somebody changed by hand is one line each; what the lab did itself is none."""

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv6Network

import pytest

from testbed.kernel.comparison import compare, gone
from testbed.kernel.node_state import NodeState
from testbed.kernel.ports.port_state import FoundPort, FoundProgram
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.node_config import (
    LOOPBACK_IFINDEX,
    USUAL_RULES,
    Difference,
    Placed,
    Route,
    Rule,
    Sysctl,
    UnknownAction,
    node_config,
)
from testbed.model.node_names import NodeId

FABRIC = Fabric.of(FabricSpec(planes=1, leaves=3, spines=2))
SPINE = NodeId.spine(0, 1)
CONFIG = node_config(FABRIC, SPINE)
FIRST, *OTHERS = CONFIG.interfaces
THROUGH = next(route for route in CONFIG.routes if route.ifindex == FIRST.ifindex)
SAME = NodeState(
    sysctls=CONFIG.quiet + CONFIG.forwarding,
    interfaces=CONFIG.interfaces,
    ready=frozenset(),
    clsacts=CONFIG.clsacts,
    addresses=CONFIG.addresses,
    neighbours=CONFIG.neighbours,
    routes=CONFIG.routes,
    dead=frozenset(),
)
BOTH = ("p0:spine1>leaf0", "p0:leaf0>spine1")
OUT = BOTH[:1]


def port(**change: object) -> FoundPort:
    return replace(FoundPort(FIRST.ifindex, up=True, clsact=True), **change)  # type: ignore[arg-type]


def differences(
    state: NodeState = SAME, first: FoundPort | None = None, placed: Mapping[int, Placed] | None = None
) -> tuple[Difference, ...]:
    ports = [first or port(), *(FoundPort(each.ifindex, up=True, clsact=True) for each in OTHERS)]
    return compare(FABRIC, CONFIG, state, ports, placed or {})


def without_first(state: NodeState) -> NodeState:
    return replace(
        state,
        routes=tuple(each for each in state.routes if each.ifindex != FIRST.ifindex),
        neighbours=tuple(each for each in state.neighbours if each.ifindex != FIRST.ifindex),
    )


def test_as_planned_in_any_order_differs_in_nothing() -> None:
    assert differences() == ()
    assert differences(replace(SAME, routes=SAME.routes[::-1], interfaces=SAME.interfaces[::-1])) == ()


SMALL = replace(SAME, interfaces=(replace(FIRST, mtu=1500), *OTHERS))
LACKS = replace(SAME, routes=tuple(each for each in SAME.routes if each != THROUGH))
BLACKHOLE = replace(SAME, routes=(Route(THROUGH.prefix, LOOPBACK_IFINDEX), *SAME.routes))
STRANGE = replace(
    SAME, neighbours=tuple(replace(each, mac="02:00:00:00:00:01") if each.ifindex == FIRST.ifindex else each
                           for each in SAME.neighbours)
)  # fmt: skip
FILTER = FoundProgram(False, 0, "matchall")
DROP = FoundProgram(True, 77, "drop")


@pytest.mark.parametrize(
    ("state", "first", "what", "words", "links"),
    [
        (SMALL, port(), "mtu", "has MTU 1500, planned 9000", BOTH),
        (SAME, port(root="tbf"), "queue", "has queue tbf, planned none", OUT),
        (LACKS, port(), "route", f"lacks its route to {THROUGH.prefix}", OUT),
        (without_first(SAME), port(up=False), "state", "is down, planned up: its routes and neighbours are away too",
         BOTH),
        (without_first(SAME), port(), "route",
         "is up without its routes and neighbours, as if it had been taken down and up", OUT),
        (BLACKHOLE, port(), "route", f"has a route to {THROUGH.prefix} that is not planned", OUT),
        (STRANGE, port(), "neighbour", None, OUT),
        (SAME, port(programs=frozenset({FILTER})), "program",
         "has a filter of kind matchall on the way out, which the lab did not put there", BOTH),
        (SAME, port(programs=frozenset({DROP})), "program",
         "has an eBPF program 77 (drop) on the way in, which the lab did not put there", BOTH),
        (SAME, port(xdp=True), "program", "has an XDP program, which the lab did not put there", BOTH),
        (SAME, port(clsact=False), "queue", "has lost its clsact", BOTH),
    ],
)  # fmt: skip
def test_what_somebody_changed_on_a_port_is_one_line(
    state: NodeState, first: FoundPort, what: str, words: str | None, links: tuple[str, ...]
) -> None:
    (found,) = differences(state, first)
    assert (found.node, found.port, found.what, found.links) == ("p0-spine1", "leaf0", what, links)
    assert words in (None, found.words)
    assert str(found) == f"p0-spine1 port leaf0 {found.words}"


def test_what_concerns_the_whole_node_names_all_its_links() -> None:
    (last,) = CONFIG.forwarding
    state = replace(SAME, sysctls=tuple(Sysctl(last.path, "0") if each == last else each for each in SAME.sysctls))
    (found,) = differences(state)
    assert str(found) == "p0-spine1 has net.ipv6.conf.all.forwarding = 0, planned 1"
    assert len(found.links) == 2 * 3
    own = next(route for route in SAME.routes if route.ifindex == LOOPBACK_IFINDEX)
    changed = replace(own, action=UnknownAction("seg6local action 1 without flavors"))
    state = replace(SAME, routes=tuple(changed if each == own else each for each in SAME.routes))
    assert [str(each) for each in differences(state)] == [
        f"p0-spine1 lacks its route to {own.prefix}",
        f"p0-spine1 has a route to {own.prefix} that is not planned",
    ]
    assert "is gone" in str(gone(FABRIC, SPINE))


def test_a_route_elsewhere_is_one_that_is_not_planned() -> None:
    (found,) = differences(replace(SAME, routes=(*SAME.routes, Route(IPv6Network("5f00:9::/32"), FIRST.ifindex))))
    assert (found.words, found.links) == ("has a route to 5f00:9::/32 that is not planned", OUT)


def test_what_the_lab_did_itself_is_no_difference() -> None:
    assert differences(without_first(SAME), port(up=False), {FIRST.ifindex: Placed(shut=True)}) == ()
    assert differences(SAME, port(root="netem"), {FIRST.ifindex: Placed(root="netem")}) == ()
    both = Placed(root="tbf").plus(Placed(root="netem", programs=frozenset({77})))
    assert differences(SAME, port(root="netem", programs=frozenset({DROP})), {FIRST.ifindex: both}) == ()


def test_a_program_of_the_lab_that_is_gone_is_a_difference() -> None:
    (found,) = differences(SAME, port(), {FIRST.ifindex: Placed(programs=frozenset({77}))})
    assert found.words == "has lost eBPF program 77 of the lab"


def test_a_port_that_is_gone_says_only_that() -> None:
    state = replace(without_first(SAME), interfaces=tuple(OTHERS))
    ports = [FoundPort(each.ifindex, up=True, clsact=True) for each in OTHERS]
    assert [str(each) for each in compare(FABRIC, CONFIG, state, ports, {})] == ["p0-spine1 port leaf0 is gone"]


def test_rules_and_interfaces_that_somebody_added_differ() -> None:
    added = replace(SAME, strange=frozenset({"tun0"}), rules=USUAL_RULES | {Rule(100, 7, 1)})
    assert [(each.what, each.found, each.words) for each in differences(added)] == [
        ("port", "tun0", "has an interface tun0 that is not planned"),
        ("rule", "priority 100, table 7", "has a routing rule (priority 100, table 7) that is not planned"),
    ]
    local = next(rule for rule in USUAL_RULES if rule.priority == 0)
    (lost,) = differences(replace(SAME, rules=USUAL_RULES - {local}))
    assert lost.words == "has lost its routing rule (priority 0, table 255)"
