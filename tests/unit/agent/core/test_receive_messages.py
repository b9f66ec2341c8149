"""Packets must be cut from messages as MRC says; what breaks a rule is found where it stands, however packets come."""

from dataclasses import replace

import numpy as np
import pytest

from agent.core.events import QpErrorReason
from agent.core.receive.messages import Sequence
from agent.wire.constants import AETH_NAK, NakCode, Opcode
from tests.unit.agent.core.test_responder import START_PSN, Receiver, writes_of

PMTU = 8
ALL = slice(None)


def stream(lengths):
    """The packets of messages of so many bytes, one after another."""
    pkts = [-(-length // PMTU) for length in lengths]
    count = sum(pkts)
    message = np.repeat(np.arange(len(lengths)), pkts)
    first = np.repeat(np.cumsum([0, *pkts[:-1]]), pkts)
    into = np.arange(count) - first
    dmalen = np.array(lengths)[message]
    is_first, is_last = into == 0, into == np.array(pkts)[message] - 1
    opcode = np.select([is_first & is_last, is_first, is_last], [0xCA, 0xC6, 0xC8], 0xC7)
    return replace(
        writes_of(range(count)),
        opcode=opcode.astype(np.uint8),
        msn=message.astype(np.uint16),
        va=(0x9000 * (message + 1) + PMTU * into).astype(np.uint64),
        rkey=(message % 3).astype(np.uint32),
        dmalen=dmalen.astype(np.uint32),
        payload_bytes=np.minimum(dmalen - PMTU * into, PMTU).astype(np.uint32),
    )


def judged(columns, steps):
    """Where a responder finds something wrong that passes packets in steps of these sizes; None: nowhere."""
    sequence, count = Sequence(1024, PMTU), len(columns)
    malformed = sequence.malformed(columns, ALL)
    if malformed is not None:
        return int(malformed.argmax())
    order = np.random.default_rng(count).permutation(count)
    sequence.note(order, columns.take(order), ALL)
    start = 0
    while start < count:
        stop = min(count, start + steps[start % len(steps)])
        found = sequence.first_wrong(start, stop)
        if found is not None:
            return found
        start = stop
    return None


STEPS = [(1,), (4,), (5,), (1000,), (1, 7, 3, 90)]


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("seed", range(6))
def test_what_is_cut_right_passes_in_any_order(seed, steps):
    rng = np.random.default_rng(seed)
    lengths = rng.choice([1, 7, 8, 9, 16, 17, 200, 803], 25).tolist()
    assert judged(stream(lengths), steps) is None
    assert judged(stream([1] * 900), steps) is None


def test_the_msn_wraps():
    sequence = Sequence(1 << 17, PMTU)
    columns = stream([3] * 70_000)
    sequence.note(np.arange(70_000), columns, ALL)
    assert sequence.first_wrong(0, 3) is None
    assert sequence.first_wrong(3, 70_000) is None


LENGTHS = [30, 8, 400, 5, 64]
"""Packets 0 to 3, 4, 5 to 54, 55, 56 to 63."""
BROKEN = {
    "no bytes": (20, "payload_bytes", 0),
    "more bytes than the PMTU": (20, "payload_bytes", 9),
    "a middle packet that is not full": (20, "payload_bytes", 7),
    "a last packet that is too long": (3, "payload_bytes", 7),
    "a last packet that is too short": (3, "payload_bytes", 5),
    "a message that holds more than it says": (55, "payload_bytes", 6),
    "a message of no bytes": (55, "dmalen", 0),
    "a first packet of a message of no bytes": (5, "dmalen", 0),
    "a message that says more than it holds": (55, "dmalen", 13),
    "another length amid a message": (30, "dmalen", 401),
    "another key amid a message": (30, "rkey", 7),
    "an address that jumps": (30, "va", 0x9000),
    "a middle packet first": (5, "opcode", Opcode.WRITE_MIDDLE),
    "a last packet first": (4, "opcode", Opcode.WRITE_LAST),
    "a first packet amid a message": (30, "opcode", Opcode.WRITE_FIRST),
    "no last packet": (54, "opcode", Opcode.WRITE_MIDDLE),
    "a last packet too early": (30, "opcode", Opcode.WRITE_LAST),
    "an only packet for a first": (5, "opcode", Opcode.WRITE_ONLY),
    "a number amid a message": (30, "msn", 3),
    "a number left out": (55, "msn", 4),
    "a number twice": (55, "msn", 2),
    "a first number that is not 0": (0, "msn", 1),
}


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("what", BROKEN)
def test_what_breaks_a_rule_is_found_where_it_stands(what, steps):
    place, column, value = BROKEN[what]
    columns = stream(LENGTHS)
    getattr(columns, column)[place] = value
    assert judged(columns, steps) == place


@pytest.mark.parametrize("steps", STEPS)
def test_a_message_that_goes_on_is_found_at_the_packet_that_should_have_ended_it(steps):
    columns = stream([8 * 600])
    columns.dmalen[:] = 8 * 500
    assert judged(columns.take(np.arange(550)), steps) == 499


def test_an_invalid_request_is_refused_and_ends_the_connection():
    receiver = Receiver()
    columns = writes_of(range(4))
    columns.payload_bytes[2] = 0
    receiver.responder.receive_writes(columns, 0)
    assert receiver.responder.failure is QpErrorReason.LOCAL_INVALID_REQUEST
    assert (receiver.counters.invalid, receiver.counters.received) == (1, 3)
    nak = receiver.responder.acks(0)
    assert nak.syndrome.tolist() == [AETH_NAK | NakCode.INVALID_REQUEST]
    assert nak.psn.tolist() == [(START_PSN + 2) % (1 << 24)]
    assert receiver.placed() == [0, 1, 3], "the bytes of a wrong packet are not placed"


def test_a_batch_of_which_all_is_wrong_places_nothing():
    receiver = Receiver()
    receiver.responder.receive_writes(replace(writes_of([0, 1]), payload_bytes=np.array([9, 9], np.uint32)), 0)
    assert (receiver.counters.invalid, receiver.counters.received) == (2, 0)


def test_messages_before_a_wrong_one_complete():
    receiver = Receiver()
    columns = writes_of(range(6), message_pkts=2)
    columns.msn[4:] = 7
    receiver.responder.receive_writes(columns, 0)
    nak = receiver.responder.acks(0)
    assert (nak.msn.tolist(), nak.psn.tolist()) == ([2], [(START_PSN + 4) % (1 << 24)])
    assert receiver.counters.messages == 2


@pytest.mark.parametrize("rqmsn", [2, 5, 0])
def test_immediates_are_counted_without_a_gap(rqmsn):
    receiver = Receiver()
    receiver.responder._delivery._receives.post(0, 9)
    columns = replace(writes_of(range(3), message_pkts=1), opcode=np.full(3, Opcode.WRITE_ONLY_IMM, np.uint8))
    columns.rqmsn[:] = [0, rqmsn, 2]
    receiver.responder.receive_writes(columns, 0)
    assert receiver.responder.failure is QpErrorReason.LOCAL_INVALID_REQUEST
    assert receiver.counters.immediates == 1
