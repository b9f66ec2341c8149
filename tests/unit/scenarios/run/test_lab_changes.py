"""What somebody else changed in the lab of a run, from two readings and the faults' state."""

from scenarios.lab.protocol import FaultState
from scenarios.run.lab_changes import changes_of, changes_text, host_ports_of, removed_faults
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.node_config import Difference

FABRIC = Fabric.of(FabricSpec(planes=2, leaves=2, spines=2))
MTU = Difference("p0-spine1", "leaf0", "mtu", "9000", "1500", "has MTU 1500, planned 9000", ("p0:leaf0>spine1",))
HOST = Difference("h1", "plane1", "queue", "none", "tbf", "has queue tbf, planned none", ("p1:h1>leaf1",))


def test_each_thing_is_told_once_with_when_it_was_found() -> None:
    changes = changes_of((MTU,), (MTU, HOST))
    assert [(each.node, each.when) for each in changes] == [("p0-spine1", "both"), ("h1", "after")]
    assert [each.when for each in changes_of((MTU,), ())] == ["before"]
    assert changes_text(changes) == (
        "somebody else changed the lab: p0-spine1 port leaf0 has MTU 1500, planned 9000; "
        "h1 port plane1 has queue tbf, planned none"
    )
    assert changes_text([MTU] * 6).endswith("; and 2 more")
    assert changes_text(()) == ""


def test_sends_refused_at_a_changed_port_of_a_host_are_not_this_machines() -> None:
    assert host_ports_of(changes_of((), (MTU, HOST)), FABRIC) == {(1, 1)}


def test_a_fault_that_somebody_removed_is_a_change_and_one_in_force_is_none() -> None:
    state = FaultState(
        "p0:leaf0>spine1", "random-drop", 0.01, 0.01, "ebpf", "scenario", "", 0, 0, 0,
        requested_text="1%", in_force_text="1%",
    )  # fmt: skip
    assert removed_faults([state], FABRIC) == ()
    gone = FaultState(**{name: getattr(state, name) for name in state.__struct_fields__} | {"in_force_text": "nothing"})
    (found,) = removed_faults([gone], FABRIC)
    assert str(found) == "p0-leaf0 port spine1 was set to drop 1% for p0:leaf0>spine1, and the kernel holds nothing"
    assert found.links == ("p0:leaf0>spine1",)
