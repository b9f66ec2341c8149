"""Defines groups of a training job on the hosts of a lab: which hosts work together, and their pattern. Pure.

Ranks are numbered as in Megatron-LM by default: tensor parallelism innermost, so its groups are
neighbours; data and pipeline parallelism outermost, so their groups are strided. Here a host is a rank.
"""

from collections.abc import Sequence
from enum import Enum

from agent.host.programs.patterns import Pattern


class Group(Enum):
    """A kind of parallelism."""

    TP = "tp"
    """Tensor parallelism: every layer's partial results are summed, in a small group that sits close together."""
    DP = "dp"
    """Data parallelism: gradients are summed over replicas, which are as far apart as a replica is large."""
    PP = "pp"
    """Pipeline parallelism: activations go to the next stage; a stage is as many hosts wide as the stride."""
    EP = "ep"
    """Expert parallelism: tokens go to the hosts of their experts and back."""


PATTERN_OF = {
    Group.TP: Pattern.ALL_REDUCE,
    Group.DP: Pattern.ALL_REDUCE,
    Group.PP: Pattern.SENDRECV,
    Group.EP: Pattern.ALL_TO_ALL,
}
"""Return the pattern of a group."""

_STRIDED = (Group.DP, Group.PP)


def groups_of(group: Group | None, size: int | None, hosts: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return hosts by group, each in order of rank; all in one without a group. `size` divides the number of hosts."""
    size = size or len(hosts)
    if group in _STRIDED:
        stride = len(hosts) // size
        return tuple(tuple(hosts[first::stride]) for first in range(stride))
    return tuple(tuple(hosts[first : first + size]) for first in range(0, len(hosts), size))
