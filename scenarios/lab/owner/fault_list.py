"""Lists faults in force and next steps of timelines for programs: an entry per fault and direction. Pure."""

from typing import Any

import msgspec

from scenarios.lab.protocol import FaultFailed, FaultPlanned, Faults, FaultState


def fault_list(shown: Faults) -> list[dict[str, Any]]:
    """Return every fault with its `state`, and its `next` step.

    `in-force`; `missing`, when somebody else removed it from the kernel; `removed`, just now; `waiting`, when only its
    timeline stands; `failed`, when a timeline could not do its act, which is listed beside what is there.
    """
    planned = {(each.link, each.fault): each for each in shown.planned}
    listed = [_standing(state, planned.pop((state.link, state.fault), None)) for state in shown.faults]
    return [*listed, *map(_waiting, planned.values()), *map(_failed, shown.failed)]


def _standing(state: FaultState, following: FaultPlanned | None) -> dict[str, Any]:
    word = {"removed": "removed", "nothing": "missing"}.get(state.in_force_text, "in-force")
    return {**msgspec.to_builtins(state), "state": word, "next": _next(following)}


def _waiting(planned: FaultPlanned) -> dict[str, Any]:
    named = {name: getattr(planned, name) for name in ("link", "kind", "fault", "requested_text", "by")}
    return {**named, "in_force": None, "in_force_text": "", "state": "waiting", "next": _next(planned)}


def _failed(failed: FaultFailed) -> dict[str, Any]:
    return {**msgspec.to_builtins(failed), "state": "failed", "next": None}


def _next(planned: FaultPlanned | None) -> dict[str, Any] | None:
    if planned is None:
        return None
    return {name: getattr(planned, name) for name in ("act", "in_s", "at", "event")}
