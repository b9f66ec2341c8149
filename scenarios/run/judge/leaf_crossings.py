"""What of a plan goes from one leaf to another, and so over spines. Pure."""

from collections.abc import Iterator

from scenarios.file.collective_plan import Sending
from scenarios.file.plan import Flow, Plan


def crosses(plan: Plan, sent: Flow | Sending) -> bool:
    """Whether its ends are below different leaves."""
    return plan.fabric.leaf_of(sent.source) != plan.fabric.leaf_of(sent.destination)


def sendings_of(plan: Plan) -> Iterator[Sending]:
    """What queue pairs of collectives send."""
    for number, collective in enumerate(plan.collectives):
        yield from (sent._replace(collective=number) for sent in collective.sendings(plan.scenario.transport.pmtu))


def crossing_sendings(plan: Plan) -> Iterator[Sending]:
    """What they send between leaves."""
    return (sent for sent in sendings_of(plan) if crosses(plan, sent))
