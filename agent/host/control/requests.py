"""Requests of a worker as records; `op` selects the request, braces show the reply's fields."""

from typing import Any, Literal

import msgspec

from agent.core.config import QpConfig
from agent.core.congestion.config import NsccConfig
from agent.host.control.profile_requests import GenFieldSettings as GenFieldSettings
from agent.host.control.profile_requests import ProfileRequest
from agent.host.control.program_requests import ProgramRequest


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="op"):
    pass


class Hello(_Request, frozen=True, tag="hello"):
    """Report the process and its hosts: {pid, hosts}."""


class RegisterRegion(_Request, frozen=True, tag="register_region"):
    """Register memory on `host`: {rkey, va}."""

    host: int
    bytes: int
    seed: int
    """Seed of the stream that a source holds and that a target is to receive."""
    role: Literal["source", "target"]
    """A target is filled with the complement of its stream, so that an unwritten byte is wrong."""
    leased: bool = False
    """Destroy it when this connection ends."""


class ShareRegion(_Request, frozen=True, tag="share_region"):
    """Register memory on `host` that the requesting process can map, zeros at first: {rkey, va, pid, fd}.

    See `agent.host.memory.map_shared`.
    """

    host: int
    bytes: int
    leased: bool = False
    """Destroy it when this connection ends."""


class ProfileSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Source of a queue pair's EVs (MRC API, EV modes)."""

    mode: Literal["AUTO", "EXP", "GEN"] = "AUTO"
    count: int | None = None
    """AUTO: number of EVs picked at random, equally many per plane; None: all. GEN: number of EVs."""
    evs: tuple[int, ...] = ()
    """EXP: exactly these EVs."""
    fields: tuple[GenFieldSettings, ...] = ()
    """GEN: fields of the generated EVs."""


class QpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings of a queue pair: the core's own, and those of its host."""

    core: QpConfig = QpConfig()
    copies: int = 1
    """Number of EVs that name the same path."""
    trimming: bool = False
    """Switches may trim data: it is sent in the classes TRIMMABLE and TRIMMABLE_RETX."""
    profile: ProfileSettings = ProfileSettings()
    nscc: NsccConfig | None = None
    """Settings of congestion control; None: off, only PSN windows limit. Its `trimming` is the one above."""
    shared_window: bool = False
    """All queue pairs from this host to that peer share one window of `nscc`; otherwise each has its own."""

    def with_core(self, **changes: Any) -> "QpSettings":
        """Copy with other settings of the core. Raises ConfigError."""
        return msgspec.structs.replace(self, core=msgspec.structs.replace(self.core, **changes))


class CreateQp(_Request, frozen=True, tag="create_qp"):
    """Create a queue pair on `host` towards `peer_host`: {qpn, start_psn, ...}, all fields of PeerEnd but host."""

    host: int
    peer_host: int
    config: QpSettings = QpSettings()
    tells_writes: bool = False
    """Its completions include its own writes; a client must collect them."""
    leased: bool = False
    """Destroy it when this connection ends."""
    controlled: int | None = None
    """Number of the EV profile it uses, ONLINE, in place of `config.profile`; None: its own."""
    cq: int | None = None
    """Completion queue for its writes and immediates; None: its own, for immediates only."""


class PeerEnd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The other end of a queue pair: the reply to its own `create_qp` (MRC Table 10-1), None where it lacks a value."""

    host: int
    qpn: int
    start_psn: int
    mpr: int | None = None
    max_wimm: int | None = None
    dynamic_mpr: bool | None = None
    trim_nack: bool = True
    port_mask: bool | None = None


class ConnectQp(_Request, frozen=True, tag="connect_qp"):
    """Connect a queue pair: take it to RTS: {}."""

    host: int
    qpn: int
    peer: PeerEnd


class PostWrite(_Request, frozen=True, tag="post_write"):
    """Write `bytes` from a source region to the peer in messages of `message_bytes`: {first_wr_id, messages, packets}.

    With `epoch` the flow is announced to the leaves first, on every path of every plane, and closed when it has left.
    """

    host: int
    qpn: int
    rkey: int
    """Key of the source region."""
    offset: int
    """Offset of the first byte in it."""
    bytes: int
    remote_va: int
    """Address of the first byte at the peer."""
    remote_rkey: int
    message_bytes: int
    epoch: int | None = None
    imm: int | None = None
    """Immediate data, 32 bits, sent with each message; the peer must have posted a receive for it."""


class PostReceives(_Request, frozen=True, tag="post_receives"):
    """Post receives for the peer's immediates: {}."""

    host: int
    qpn: int
    count: int


class Completions(_Request, frozen=True, tag="completions"):
    """Remove and return completions of a queue pair, oldest first: {completions}.

    Each has a `kind`: `immediate` with {wr_id, imm, bytes}; of a queue pair made with `tells_writes` also `writes` with
    {first_wr_id, count, bytes, status}.
    """

    host: int
    qpn: int


class Brake(_Request, frozen=True, tag="brake"):
    """Make a queue pair ask its peer to send less, as a slow responder does (`agent.core.qp.QueuePair.brake`): {}."""

    host: int
    qpn: int
    penalty: int
    """Penalty rcv_cwnd_pen, 0..127; 0 ends it."""


class FailQp(_Request, frozen=True, tag="fail_qp"):
    """Take a queue pair to ERROR; posted messages are flushed: {}."""

    host: int
    qpn: int


class PortState(_Request, frozen=True, tag="port_state"):
    """Hold a port of `host` down whatever its carrier is, or end that: {}."""

    host: int
    plane: int
    up: bool


class SetEvents(_Request, frozen=True, tag="set_events"):
    """Set detail and size limit of the event log from now on: {}."""

    detail: Literal["off", "default", "detail"]
    most_bytes: int | None = None
    """Size limit of its file; None: unchanged. The oldest records are dropped first."""


class DenyEvs(_Request, frozen=True, tag="deny_evs"):
    """Deny EVs to a queue pair, or allow them again: {}."""

    host: int
    qpn: int
    evs: tuple[int, ...]
    allow: bool = False


class DeniedLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One direction of a leaf-spine link: up from the leaf, or down to it."""

    plane: int
    leaf: int
    spine: int
    up: bool


class SetDenied(_Request, frozen=True, tag="set_denied"):
    """Deny all EVs that cross any of these links to all queue pairs, present and future: {evs}, the number denied.

    This replaces the list of the last such request.
    """

    links: tuple[DeniedLink, ...]
    probed: tuple[DeniedLink, ...] = ()
    """Links of these over which probes are sent, to find out whether they deliver again."""


class LinkProbesAsked(_Request, frozen=True, tag="link_probes"):
    """Report results of probes over denied links since probing began: {links}, each with `answered` and `lost`."""


class Progress(_Request, frozen=True, tag="progress"):
    """Report the progress of every queue pair: {qps}."""


class Verify(_Request, frozen=True, tag="verify"):
    """Compare a region with the stream of `seed`: {bytes, wrong, first_wrong}."""

    host: int
    rkey: int
    seed: int


class Counters(_Request, frozen=True, tag="counters"):
    """Report counters of ports, decoder, EVs and this process.

    {ports, rejected, sched_wait_ns, cpu_ns, evs, reordering, events_cut}
    """


class QpName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Name of one queue pair."""

    host: int
    qpn: int


class RegionName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Name of one region."""

    host: int
    rkey: int


class Destroy(_Request, frozen=True, tag="destroy"):
    """Destroy queue pairs and regions: {}."""

    qps: tuple[QpName, ...] = ()
    regions: tuple[RegionName, ...] = ()


class Shutdown(_Request, frozen=True, tag="shutdown"):
    """End the worker: {} and the connection closes."""


Request = (
    Hello
    | RegisterRegion
    | ShareRegion
    | CreateQp
    | ConnectQp
    | PostWrite
    | PostReceives
    | Completions
    | FailQp
    | Brake
    | PortState
    | SetEvents
    | DenyEvs
    | SetDenied
    | LinkProbesAsked
    | Progress
    | Verify
    | Counters
    | Destroy
    | Shutdown
    | ProgramRequest
    | ProfileRequest
)
