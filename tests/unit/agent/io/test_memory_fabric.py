"""The fabric in memory: who gets which frame, when, and how often."""

import numpy as np
import pytest

from agent.io.memory_fabric import MemoryFabric, PathRule
from agent.wire.ev import EvCodec

ADDRESSES = [bytes.fromhex("fd5f") + bytes(13) + bytes([host]) for host in range(2)]


def frames(*spines: int, plane: int = 0, target: int = 1) -> np.ndarray:
    """Frames from leaf 0 to leaf `target` over these spines, numbered in their last byte."""
    rows = np.zeros((len(spines), 120), np.uint8)
    for number, spine in enumerate(spines):
        ev = EvCodec().ev_of(plane, spine, 0)
        rows[number, 38:54] = np.frombuffer(EvCodec().carrier_of(ev, 0, target, 0), np.uint8)
        rows[number, 78:94] = np.frombuffer(ADDRESSES[target], np.uint8)
        rows[number, 119] = number
    return rows


def join(*rules: PathRule, planes: int = 1):
    fabric = MemoryFabric(np.random.default_rng(1), rules, base_delay_ns=1000, path_skew_ns=100)
    ports = [fabric.open_port(host, plane, ADDRESSES[host]) for plane in range(planes) for host in range(2)]
    return fabric, *ports


def send(port, rows):
    room = port.reserve(len(rows)).frames
    room[:, : rows.shape[1]] = rows
    port.fill(np.full(len(rows), rows.shape[1], np.uint32))
    assert port.send() == len(rows)


def arrived(port) -> list[int]:
    block = port.receive(1000)
    if block is None:
        return []
    numbers = [int(row[length - 1]) for row, length in zip(block.frames, block.lengths, strict=True)]
    port.release(len(numbers))
    return numbers


def test_a_frame_arrives_when_its_path_has_been_crossed():
    fabric, a, b = join()
    send(a, frames(0))
    assert fabric.next_arrival_ns() == 1100
    fabric.advance(1099)
    assert arrived(b) == []
    fabric.advance(1100)
    assert arrived(b) == [0]
    assert fabric.next_arrival_ns() is None
    assert arrived(a) == []


def test_a_path_keeps_its_order_and_faster_paths_overtake():
    fabric, a, b = join()
    send(a, frames(3, 0, 3, 0))
    fabric.advance(5000)
    assert arrived(b) == [1, 3, 0, 2]


def test_frames_that_lead_nowhere_are_counted():
    fabric, a, b = join()
    lost = frames(0, 0)
    lost[0, 78:94] = 0x77
    send(a, lost)
    send(a, frames(0, plane=1))
    fabric.advance(5000)
    assert arrived(b) == [1]
    assert fabric.unroutable == 2


def test_received_frames_stay_until_released():
    fabric, a, b = join()
    send(a, frames(0, 0, 0))
    fabric.advance(5000)
    assert len(b.receive(2).lengths) == 2
    b.release(1)
    assert arrived(b) == [1, 2]


@pytest.mark.parametrize(
    ("rule", "dropped"),
    [
        (PathRule(loss=1.0), 4),
        (PathRule(spine=1, loss=1.0), 2),
        (PathRule(plane=1, loss=1.0), 0),
        (PathRule(source=1, loss=1.0), 0),
        (PathRule(target=1, loss=1.0), 4),
        (PathRule(opcodes=(0xC7,), loss=1.0), 0),
        (PathRule(opcodes=(0,), loss=1.0), 4),
        (PathRule(first_ns=1, loss=1.0), 0),
        (PathRule(end_ns=0, loss=1.0), 0),
    ],
    ids=repr,
)
def test_a_rule_drops_what_matches_it(rule, dropped):
    fabric, a, b = join(rule)
    send(a, frames(0, 1, 0, 1))
    fabric.advance(5000)
    assert len(arrived(b)) == 4 - dropped
    assert fabric.counts[0].dropped == dropped


def test_rules_delay_duplicate_and_alter():
    def shorten(rows, lengths):
        lengths -= 10
        rows[:, 109] = rows[:, 119]

    fabric, a, b = join(PathRule(spine=1, delay_ns=50_000, duplicate=1.0), PathRule(spine=0, alter=shorten))
    send(a, frames(1, 0))
    fabric.advance(40_000)
    assert int(b.receive(9).lengths[0]) == 110
    assert arrived(b) == [1]
    fabric.advance(60_000)
    assert arrived(b) == [0, 0]


def test_loss_follows_its_rate_and_its_seed():
    def survivors():
        fabric, a, b = join(PathRule(loss=0.25))
        for _ in range(8):
            send(a, frames(*[0] * 100))
        fabric.advance(5000)
        return arrived(b)

    first = survivors()
    assert first == survivors()
    assert 550 < len(first) < 650


def test_a_port_has_only_so_much_room():
    fabric = MemoryFabric(np.random.default_rng(1))
    port = fabric.open_port(0, 0, ADDRESSES[0], slots=3)
    assert port.room() == len(port.reserve(10)) == 3
    port.fill(np.full(2, 120, np.uint32))
    assert port.room() == 1
    port.send()
    assert port.room() == 3


def test_time_does_not_go_back():
    fabric, *_ = join()
    fabric.advance(10)
    with pytest.raises(ValueError, match="back"):
        fabric.advance(9)
