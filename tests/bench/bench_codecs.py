"""What a packet takes each codec, in microseconds of CPU: `python -m tests.bench.bench_codecs`.

A write of 256 bytes and a SACK, built and read; one batch of 256 by the fast codec, 256 packets by Scapy's.
"""

import time
from collections.abc import Callable

import numpy as np

from agent.io.codec import FAST, Codec
from agent.io.scapy_port import SCAPY
from tests.unit.agent.wire.wire_frames import PEER, SACK_TYPES, SOURCE_MEMORY, sack_batch, template, write_batch

PACKETS = 256
WRITE = dict.fromkeys(("psn", "flags", "msn", "rqmsn", "va", "rkey", "dmalen", "imm", "source_offset", "ev_index"), 3)
SACK = dict.fromkeys(SACK_TYPES, 1) | {"ev": 3}


def microseconds(work: Callable[[], object], repeats: int) -> float:
    """CPU time a packet, the best of three."""
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        for _ in range(repeats):
            work()
        best = min(best, time.process_time() - began)
    return best / repeats / PACKETS * 1e6


def rows_of(codec: Codec, repeats: int) -> list[tuple[str, float]]:
    """Each thing that is done with a packet, and what it takes."""
    flow, out = template(), np.zeros((PACKETS, 512), np.uint8)
    writes = write_batch([WRITE | {"opcode": 0xC7, "payload_bytes": 256}] * PACKETS, SOURCE_MEMORY)
    sacks = sack_batch([SACK] * PACKETS)
    found = []
    for name, encode, batch in (("write", codec.encode_writes, writes), ("SACK", codec.encode_sacks, sacks)):
        lengths = encode(flow, batch, out, None)
        assert not codec.decode(out, lengths, PEER.address, 0).rejected
        found.append((f"build a {name}", microseconds(lambda e=encode, b=batch: e(flow, b, out, None), repeats)))
        found.append((f"read a {name}", microseconds(lambda n=lengths: codec.decode(out, n, PEER.address, 0), repeats)))
    return found


def main() -> None:
    """Print the table."""
    print(f"{'':16}{'fast':>8}{'Scapy':>9}   µs of CPU a packet")
    for (name, fast), (_, slow) in zip(rows_of(FAST, 200), rows_of(SCAPY, 2), strict=True):
        print(f"{name:16}{fast:8.2f}{slow:9.0f}   {slow / fast:.0f} times")


if __name__ == "__main__":
    main()
