"""One list of faults for programs: what is in force, waits, went, failed."""

from scenarios.lab.owner.fault_list import fault_list
from scenarios.lab.protocol import FaultFailed, FaultPlanned, Faults, FaultState

UP, BACK = "p0:leaf0>spine0", "p0:spine0>leaf0"


def state(link: str, in_force: str) -> FaultState:
    return FaultState(link, "random-drop", 0.01, None, "ebpf", "hand", "t", 9, 1, 1, "drop", in_force_text=in_force)


def planned(link: str, act: str, in_s: float | None, event: str | None) -> FaultPlanned:
    return FaultPlanned(link, "random-drop", "drop", "1%", act, in_s, None if in_s is None else "t", event, "hand")


def test_every_state_is_told():
    told = Faults(
        (state(UP, "1%"), state("c", "removed"), state("d", "nothing")),
        (planned(UP, "clear", 2.0, "detected"), planned(BACK, "set", None, "traffic")),
        (FaultFailed("e", "drop", "set", "no such port"),),
    )
    entries = {entry["link"]: entry for entry in fault_list(told)}
    assert {link: entry["state"] for link, entry in entries.items()} == {
        UP: "in-force",
        BACK: "waiting",
        "c": "removed",
        "d": "missing",
        "e": "failed",
    }
    assert entries[UP]["next"] == {"act": "clear", "in_s": 2.0, "at": "t", "event": "detected"}
    assert entries[BACK]["next"] == {"act": "set", "in_s": None, "at": None, "event": "traffic"}
    assert (entries["c"]["next"], entries["e"]["error"]) == (None, "no such port")
    assert entries[UP]["dropped"] == 1
