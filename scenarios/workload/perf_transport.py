"""Configures queue pairs of a performance test: as a scenario's, with a window that fits the rings."""

from agent.host.control import requests as ask
from scenarios.file.transport import Transport
from scenarios.file.windows import fitting_window
from scenarios.lab.start.qp_settings import qp_settings_of
from testbed.model.fabric import Fabric


def fitting_settings(transport: Transport, seed: int, queue_pairs: int, fabric: Fabric) -> ask.QpSettings:
    """Return settings for queue pairs of which this many lead to one host."""
    window = fitting_window(transport.window_pkts, queue_pairs, fabric.spec.planes)
    return qp_settings_of(transport, seed).with_core(window_pkts=window)
