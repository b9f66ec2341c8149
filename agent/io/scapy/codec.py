"""Codec that builds and dissects every packet with Scapy. Importing it loads Scapy: most of a second."""

from agent.io.codec import Codec
from agent.wire.scapy import build, read

SCAPY = Codec(
    read.decode,
    build.encode_writes,
    build.encode_sacks,
    build.encode_control,
    build.encode_announcements,
    # A frame takes about as long as a thousand of the fast codec: few at a time, or timers and neighbours wait. Our
    # choice, some 20 ms.
    block_frames=16,
    backlog_frames=32,
)
