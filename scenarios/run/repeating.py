"""What of a run the same seed repeats, as its transport, faults and detector leave it. Pure."""

from collections.abc import Iterator

from results.records.manifest import Repeating
from scenarios.file.plan import Plan
from testbed.model.ids import DirectedLink, Role

_DROPS = "which packets at a port a random drop takes, by their number there, where truth.jsonl tells its fault_seed"
_VARIES = (
    "which packets a random drop takes whose fault_seed is null (netem before Linux 6.7)",
    "timing: rates, which packets share a SACK, on which path a lost packet is sent again",
)
_BY_HAND = ", unless links are denied or ports shut by hand"


def repeating_of(plan: Plan, attached: bool) -> Repeating:
    """What repeats with the seed and what does not; `attached`: on a lab that others may change meanwhile."""
    moved, by_hand = "; ".join(_moves_paths(plan, attached)), _BY_HAND if attached else ""
    stays = (
        f"the order in which each queue pair uses its entropy values{by_hand}",
        f"which packets belong to which path, hence every N and λ{by_hand}",
    )
    lost = f"which packets take which path, hence λ as declared: {moved}"
    chosen = "which flows are measured: leaves choose among those that go on (detector.select one)"
    one = plan.scenario.detector.select == "one"
    return Repeating(
        repeats=("payload bytes", *(() if moved else stays), _DROPS),
        varies=(*((lost,) if moved else ()), *((chosen,) if one else ()), *_VARIES),
    )


def _moves_paths(plan: Plan, attached: bool) -> Iterator[str]:
    """Why entropy values leave and return, or are others, at moments that no seed fixes."""
    ev = plan.scenario.transport.ev
    if ev.loss_policy != "off":
        yield f"entropy values leave with losses and return with answers (transport.ev.loss_policy {ev.loss_policy})"
    if shut := sorted({kind for kind, way in _shut_ports(plan) if Role.HOST in _roles(way)}):
        yield f"they leave while a host's port is shut ({', '.join(shut)})"
    if plan.scenario.detector.act:
        yield "they leave when a link is named (detector.act)"
    if attached and (ev.active is not None or not ev.profile.is_all):
        yield "they are chosen by the lab's seed and the queue pair's number (run --attach)"


def _shut_ports(plan: Plan) -> Iterator[tuple[str, DirectedLink]]:
    for order in plan.faults:
        for fault in order.worded.faults:
            if fault.shuts_ports():
                yield from ((fault.kind, way) for way in order.chosen.ways)


def _roles(way: DirectedLink) -> tuple[Role, Role]:
    return way.sender.role, way.receiver.role
