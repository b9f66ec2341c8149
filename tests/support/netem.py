"""Whether this kernel has netem, for tests that need it."""

import os

import pytest

from testbed.errors import MissingFeatureError
from testbed.kernel.netlink.rtnl import Rtnl
from testbed.kernel.netns import in_nameless_namespace
from testbed.kernel.ports.shaping import Netem, set_netem
from testbed.model.node_config import LOOPBACK_IFINDEX


def _try() -> None:
    with Rtnl.here("probe") as rtnl:
        set_netem(rtnl, LOOPBACK_IFINDEX, Netem())


def _has_netem() -> bool:
    if os.geteuid() != 0:
        return False
    try:
        in_nameless_namespace(_try)
    except MissingFeatureError:
        return False
    return True


HAS_NETEM = _has_netem()
WITHOUT_NETEM = "this kernel lacks netem: CONFIG_NET_SCH_NETEM (module sch_netem)"
needs_netem = pytest.mark.skipif(not HAS_NETEM, reason=WITHOUT_NETEM)
