"""Where a plan's faults drop data. Pure."""

from collections.abc import Iterator
from fractions import Fraction

from faults.kinds import Fault
from scenarios.file.plan import Plan
from testbed.model.ids import DirectedLink, Role


def is_between_switches(way: DirectedLink) -> bool:
    """Whether it is one of those links that SprayCheck can name."""
    return way.egress.node.role is not Role.HOST and way.ingress.node.role is not Role.HOST


def fabric_drops(plan: Plan) -> Iterator[tuple[DirectedLink, Fault, Fraction]]:
    """Every direction between switches with a fault that drops data, and what share of them."""
    for way, fault in dropping(plan):
        if is_between_switches(way):
            yield way, fault, fault.drop_rate or Fraction(0)


def dropping(plan: Plan) -> Iterator[tuple[DirectedLink, Fault]]:
    """Every direction with a fault that drops data."""
    for order in plan.faults:
        for fault in order.worded.faults:
            if fault.drop_rate and not fault.only.spares_first_sent:
                yield from ((way, fault) for way in order.chosen.ways)
