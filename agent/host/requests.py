"""The requests a worker understands, as records; `op` says which, the reply's fields stand in braces."""

from typing import Literal

import msgspec


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="op"):
    pass


class Hello(_Request, frozen=True, tag="hello"):
    """Who is there: {pid, hosts}."""


class RegisterRegion(_Request, frozen=True, tag="register_region"):
    """Register memory on `host`: {rkey, va}."""

    host: int
    bytes: int
    seed: int
    """Of the stream that a source holds and that a target is to receive."""
    role: Literal["source", "target"]
    """A target is filled with the complement of its stream, so that a byte nobody wrote is wrong."""


class QpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of a queue pair; names and units are those of `agent.core.config.QpConfig`."""

    pmtu: int = 4096
    window_pkts: int = 1024
    policy: Literal["rotation", "random"] = "rotation"
    seed: int = 0
    copies: int = 1
    """EVs that name the same path."""
    start_psn: int | None = None
    sack_delay_ns: int | None = None
    ack_timeout_ns: int | None = None
    linear_cnt: int | None = None
    exp_cnt: int | None = None


class CreateQp(_Request, frozen=True, tag="create_qp"):
    """Make a queue pair on `host` towards `peer_host`: {qpn, start_psn}."""

    host: int
    peer_host: int
    config: QpSettings = QpSettings()


class PeerEnd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The other end of a queue pair."""

    host: int
    qpn: int
    start_psn: int


class ConnectQp(_Request, frozen=True, tag="connect_qp"):
    """Take a queue pair to RTS: {}."""

    host: int
    qpn: int
    peer: PeerEnd


class PostWrite(_Request, frozen=True, tag="post_write"):
    """Write `bytes` from a source region to the peer in messages of `message_bytes`: {messages, packets}.

    With `epoch` the flow is announced to the leaves first, on every path of every plane.
    """

    host: int
    qpn: int
    rkey: int
    """Source region."""
    offset: int
    """Where to begin in it."""
    bytes: int
    remote_va: int
    """Address of the first byte at the peer."""
    remote_rkey: int
    message_bytes: int
    epoch: int | None = None


class Progress(_Request, frozen=True, tag="progress"):
    """How far every queue pair is: {qps}."""


class Verify(_Request, frozen=True, tag="verify"):
    """Compare a region with the stream of `seed`: {bytes, wrong, first_wrong}."""

    host: int
    rkey: int
    seed: int


class Counters(_Request, frozen=True, tag="counters"):
    """What ports, decoder, EVs and this process counted: {ports, rejected, sched_wait_ns, cpu_ns, evs}."""


class QpName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One queue pair."""

    host: int
    qpn: int


class RegionName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One region."""

    host: int
    rkey: int


class Destroy(_Request, frozen=True, tag="destroy"):
    """Forget queue pairs and regions: {}."""

    qps: tuple[QpName, ...] = ()
    regions: tuple[RegionName, ...] = ()


class Shutdown(_Request, frozen=True, tag="shutdown"):
    """End the worker: {} and the connection closes."""


Request = Hello | RegisterRegion | CreateQp | ConnectQp | PostWrite | Progress | Verify | Counters | Destroy | Shutdown
