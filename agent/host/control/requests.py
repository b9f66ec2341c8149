"""The requests a worker understands, as records; `op` says which, the reply's fields stand in braces."""

from typing import Any, Literal

import msgspec

from agent.core.config import QpConfig
from agent.core.congestion.config import NsccConfig
from agent.host.control.profile_requests import GenFieldSettings as GenFieldSettings
from agent.host.control.profile_requests import ProfileRequest
from agent.host.programs.requests import ProgramRequest


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
    leased: bool = False
    """Destroyed when this connection ends."""


class ShareRegion(_Request, frozen=True, tag="share_region"):
    """Register memory on `host` that the asking process can map, zeros at first: {rkey, va, pid, fd}.

    See `agent.host.memory.shared.map_shared`.
    """

    host: int
    bytes: int
    leased: bool = False
    """Whether it goes when the connection that asked for it ends."""


class ProfileSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a queue pair's EVs come from (MRC API, EV modes)."""

    mode: Literal["AUTO", "EXP", "GEN"] = "AUTO"
    count: int | None = None
    """AUTO: so many, picked at random, equally many of each plane; None: all there are. GEN: so many."""
    evs: tuple[int, ...] = ()
    """EXP: exactly these."""
    fields: tuple[GenFieldSettings, ...] = ()
    """GEN."""


class QpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a queue pair is made: the core's own settings, and what its host does around it."""

    core: QpConfig = QpConfig()
    copies: int = 1
    """EVs that name the same path."""
    trimming: bool = False
    """Data may be trimmed by switches: it goes out in the classes TRIMMABLE and TRIMMABLE_RETX."""
    profile: ProfileSettings = ProfileSettings()
    nscc: NsccConfig | None = None
    """None: congestion control off, only PSN windows limit. Its `trimming` is the one above."""
    shared_window: bool = False
    """One window of `nscc` for all queue pairs from this host to that peer; else one each."""

    def with_core(self, **changes: Any) -> "QpSettings":
        """The same with other settings of the core. Raises ConfigError."""
        return msgspec.structs.replace(self, core=msgspec.structs.replace(self.core, **changes))


class CreateQp(_Request, frozen=True, tag="create_qp"):
    """Make a queue pair on `host` towards `peer_host`: {qpn, start_psn, ...}, all fields of PeerEnd but host."""

    host: int
    peer_host: int
    config: QpSettings = QpSettings()
    tells_writes: bool = False
    """Its completions tell of its own writes, too; somebody must take them."""
    leased: bool = False
    """Destroyed when this connection ends."""
    controlled: int | None = None
    """Number of the EV profile it uses, ONLINE, in place of `config.profile`; None: one of its own."""
    cq: int | None = None
    """Completion queue for its writes and immediates; None: one of its own, for immediates only."""


class PeerEnd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The other end of a queue pair: what its own `create_qp` replied (MRC Table 10-1), None where not told."""

    host: int
    qpn: int
    start_psn: int
    mpr: int | None = None
    max_wimm: int | None = None
    dynamic_mpr: bool | None = None
    trim_nack: bool = True
    port_mask: bool | None = None


class ConnectQp(_Request, frozen=True, tag="connect_qp"):
    """Take a queue pair to RTS: {}."""

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
    """Source region."""
    offset: int
    """Where to begin in it."""
    bytes: int
    remote_va: int
    """Address of the first byte at the peer."""
    remote_rkey: int
    message_bytes: int
    epoch: int | None = None
    imm: int | None = None
    """32 bits told to the peer with each message, which must have posted a receive for it."""


class PostReceives(_Request, frozen=True, tag="post_receives"):
    """Post receives for the peer's immediates: {}."""

    host: int
    qpn: int
    count: int


class Completions(_Request, frozen=True, tag="completions"):
    """Take what has completed at a queue pair, oldest first: {completions}.

    Each has a `kind`: `immediate` with {wr_id, imm, bytes}; of a queue pair made with `tells_writes` also `writes` with
    {first_wr_id, count, bytes, status}.
    """

    host: int
    qpn: int


class Brake(_Request, frozen=True, tag="brake"):
    """Have a queue pair ask its peer to send less, as a slow responder does (`agent.core.qp.QueuePair.brake`): {}."""

    host: int
    qpn: int
    penalty: int
    """rcv_cwnd_pen, 0..127; 0 ends it."""


class FailQp(_Request, frozen=True, tag="fail_qp"):
    """Take a queue pair to ERROR; what is posted is flushed: {}."""

    host: int
    qpn: int


class PortState(_Request, frozen=True, tag="port_state"):
    """Take a port of `host` out of use whatever its carrier says, or no longer so: {}."""

    host: int
    plane: int
    up: bool


class SetEvents(_Request, frozen=True, tag="set_events"):
    """How much the event log tells and keeps from now on: {}."""

    detail: Literal["off", "default", "detail"]
    most_bytes: int | None = None
    """Of its file; None: as before. The oldest records go first."""


class DenyEvs(_Request, frozen=True, tag="deny_evs"):
    """Forbid EVs to a queue pair, or allow them again: {}."""

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
    """Forbid all EVs that cross any of these links to all queue pairs, those to come too: {evs}, how many that are.

    In place of what the last such request forbade.
    """

    links: tuple[DeniedLink, ...]
    probed: tuple[DeniedLink, ...] = ()
    """Those of them over which probes are sent, to learn whether they deliver again."""


class LinkProbesAsked(_Request, frozen=True, tag="link_probes"):
    """What probes over denied links have shown since they are probed: {links}, each with `answered` and `lost`."""


class Progress(_Request, frozen=True, tag="progress"):
    """How far every queue pair is: {qps}."""


class Verify(_Request, frozen=True, tag="verify"):
    """Compare a region with the stream of `seed`: {bytes, wrong, first_wrong}."""

    host: int
    rkey: int
    seed: int


class Counters(_Request, frozen=True, tag="counters"):
    """What ports, decoder, EVs and this process counted.

    {ports, rejected, sched_wait_ns, cpu_ns, evs, reordering, events_cut}
    """


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
