"""Two throwaway namespaces joined by veths, and raw frames through them: the smallest network a program can sit on."""

import itertools
import os
import socket
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from testbed.kernel.netlink.rtnl import Rtnl
from testbed.kernel.netns import create_namespaces, delete_namespaces, inside, namespace_path
from testbed.kernel.ports.qdisc import Direction, attached_programs, qdisc_kinds
from tests.support.backlog import until_delivered

ETH_P_ALL = 0x0003
_numbers = itertools.count()


@dataclass(frozen=True)
class End:
    """One side: port i is called `wire<i>` and has interface index `first_ifindex` + i."""

    name: str
    first_ifindex: int
    """Differs between the ends: a veth that has its peer's index may come up a second late."""

    def ifindex(self, port: int = 0) -> int:
        return self.first_ifindex + port

    @property
    def path(self) -> Path:
        return namespace_path(self.name)

    def socket(self, port: int = 0) -> socket.socket:
        """A packet socket on a port; it sees what arrives and, as kernel taps do, what leaves."""
        with inside(self.path):
            opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            opened.bind((f"wire{port}", ETH_P_ALL))
        opened.settimeout(2)
        return opened

    def send(self, frames: Iterable[bytes], port: int = 0) -> None:
        with self.socket(port) as opened:
            for frame in frames:
                opened.send(frame)
        until_delivered()

    def received(self, port: int = 0) -> int:
        """Packets that arrived at the port since it was made."""
        until_delivered()
        with inside(self.path):
            text = Path("/proc/thread-self/net/dev").read_text()
        (line,) = [line for line in text.splitlines() if line.strip().startswith(f"wire{port}:")]
        return int(line.split(":")[1].split()[1])

    def kernel_state(self, port: int = 0) -> tuple[object, ...]:
        """All that traffic control holds on the port."""
        with Rtnl.inside(self.name, self.path) as rtnl:
            ifindex = self.ifindex(port)
            return (
                qdisc_kinds(rtnl, ifindex),
                *(attached_programs(rtnl, ifindex, direction) for direction in Direction),
            )


@contextmanager
def veth_pair(links: int = 1) -> Iterator[tuple[End, End]]:
    """Two ends with `links` veths between them, IPv6 off so that nothing but the test sends."""
    number = next(_numbers)
    prefix = f"spraylab-veth{os.getpid()}x{number}"
    ends = End(f"{prefix}-a", 500), End(f"{prefix}-b", 100)
    with ExitStack() as undo:
        create_namespaces([end.name for end in ends])
        undo.callback(delete_namespaces, [end.name for end in ends])
        for end in ends:
            with inside(end.path):
                Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
        for link in range(links):
            _join(ends, link)
        yield ends[0], ends[1]


def _join(ends: Sequence[End], link: int) -> None:
    one, other = (
        ["name", f"wire{link}", "index", str(end.ifindex(link)), "mtu", "9000", "netns", end.name] for end in ends
    )
    _ip("link", "add", *one, "type", "veth", "peer", *other)
    for end in ends:
        _ip("-n", end.name, "link", "set", f"wire{link}", "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
