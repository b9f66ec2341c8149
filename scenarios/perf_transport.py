"""How the queue pairs of a performance test send."""

from dataclasses import dataclass

from agent.host import requests as ask
from scenarios.windows import fitting_window
from testbed.model.fabric import Fabric

TAIL_PROBES_A_TIMEOUT = 4
"""A silent path is probed after this part of the timeout, as in scenarios."""


@dataclass(frozen=True)
class PerfTransport:
    """Settings of the queue pairs; names and ranges are those of a scenario's `transport`."""

    pmtu: int = 4096
    window_pkts: int = 256
    spray: str = "rotation"
    ack_timeout_ms: int = 500
    seed: int = 1

    def settings(self, queue_pairs: int, fabric: Fabric) -> ask.QpSettings:
        """With a window that fits the rings when `queue_pairs` lead to one host."""
        timeout_ns = self.ack_timeout_ms * 1_000_000
        return ask.QpSettings(
            pmtu=self.pmtu,
            window_pkts=fitting_window(self.window_pkts, queue_pairs, fabric.spec.planes),
            policy="random" if self.spray == "random" else "rotation",
            seed=self.seed,
            ack_timeout_ns=timeout_ns,
            ev=ask.EvSettings(tail_probe_ns=timeout_ns // TAIL_PROBES_A_TIMEOUT),
        )
