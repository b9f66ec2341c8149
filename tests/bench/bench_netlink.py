"""What do batches of our own save? One leaf configured and read back, by us and by pyroute2's requests in full.

    python -m tests.bench.bench_netlink

Prints milliseconds of processor time, the kernel's included: median of all rounds, and the least. Needs root; makes two
namespaces and removes them.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import click
from pyroute2 import IPRoute
from pyroute2.netlink import NLM_F_ACK, NLM_F_REQUEST

from testbed.kernel.netlink import requests
from testbed.kernel.netlink.rtnl import Rtnl
from testbed.kernel.netns import create_namespaces, delete_namespaces, inside, namespace_path
from testbed.kernel.node_state import read_state, requests_of, write_sysctls
from testbed.model.fabric import Fabric, FabricSpec
from testbed.model.node_config import NodeConfig, cables_of, node_config
from testbed.model.node_names import NodeId

FABRIC = Fabric.of(FabricSpec(planes=4, leaves=8, spines=8))
LEAF = NodeId.leaf(0, 0)
NEAR, FAR = "spraylab-nlbench-near", "spraylab-nlbench-far"
FIRST_FAR_IFINDEX = 5000


def wire(config: NodeConfig) -> None:
    """A namespace with the leaf's ports, not configured, whose other ends are up in another."""
    delete_namespaces((NEAR, FAR))
    create_namespaces([NEAR, FAR])
    write_sysctls("leaf", namespace_path(NEAR), config.quiet)
    cables = [
        replace(cable, far=replace(cable.far, name=f"far{at}", ifindex=FIRST_FAR_IFINDEX + at))
        for at, cable in enumerate(cables_of(FABRIC, LEAF))
    ]
    with Rtnl.inside("near", namespace_path(NEAR)) as rtnl, namespace_path(FAR).open() as far:
        rtnl.apply([requests.create_cable(cable, far.fileno()) for cable in cables])
    with Rtnl.inside("far", namespace_path(FAR)) as rtnl:
        rtnl.apply([requests.bring_up(cable.far.ifindex, cable.far.name) for cable in cables])
    write_sysctls("leaf", namespace_path(NEAR), config.forwarding)


@contextmanager
def pyroute2_inside() -> Iterator[Any]:
    """pyroute2's own socket and event loop inside the namespace."""
    with inside(namespace_path(NEAR)):
        opened = IPRoute(ext_ack=True)
    with opened:
        yield opened


def configure_ours(config: NodeConfig) -> None:
    """All requests in one send."""
    with Rtnl.inside("leaf", namespace_path(NEAR)) as rtnl:
        rtnl.apply(requests_of(config))


def configure_pyroute2(config: NodeConfig) -> None:
    """The same messages in one send of pyroute2's."""
    messages = []
    for each in requests_of(config):
        each.message["header"] |= {"type": each.type, "flags": NLM_F_REQUEST | NLM_F_ACK | each.flags}
        messages.append(each.message)
    with pyroute2_inside() as opened:
        opened.nlm_request_batch(messages)


def read_ours(config: NodeConfig) -> None:
    """All dumps, as the fabric is read back."""
    read_state(config, namespace_path(NEAR))


def read_pyroute2(_: NodeConfig) -> None:
    """The same dumps by pyroute2's methods."""
    with pyroute2_inside() as opened:
        dumps = opened.get_links, opened.get_qdiscs
        of_ipv6 = opened.get_routes, opened.get_addr, opened.get_neighbours
        for found in (*(dump() for dump in dumps), *(dump(family=10) for dump in of_ipv6)):
            list(found)


def open_by_name(_: NodeConfig) -> None:
    """A socket in a namespace as pyroute2 opens it when told the name: by a process of its own."""
    IPRoute(netns=NEAR).close()


def cpu_ms(act: Callable[[NodeConfig], None], config: NodeConfig) -> float:
    """Milliseconds of processor time that an act takes in this process."""
    before = time.process_time()
    act(config)
    return 1e3 * (time.process_time() - before)


@click.command()
@click.option("--rounds", default=40, show_default=True)
def main(rounds: int) -> None:
    """Measure and print."""
    config = node_config(FABRIC, LEAF)
    click.echo(f"# {len(requests_of(config))} requests, then 5 dumps; CPU ms, median and least of {rounds}")
    try:
        for act in (configure_ours, configure_pyroute2, read_ours, read_pyroute2, open_by_name):
            taken = []
            for _ in range(rounds):
                if act in (configure_ours, configure_pyroute2):
                    wire(config)
                taken.append(cpu_ms(act, config))
            click.echo(f"{act.__name__:20} {statistics.median(taken):6.1f} {min(taken):6.1f}")
    finally:
        delete_namespaces((NEAR, FAR))


if __name__ == "__main__":
    main()
