"""A packet in one line and as a record, and filters; the packets are those that the engines send."""

import numpy as np
import pytest
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw

from agent.wire.array.columns import Announcement
from agent.wire.array.encode import encode_announcements
from agent.wire.array.template import FlowEnds
from agent.wire.ev import EvCodec
from agent.wire.layers import AETH, BTH, CC_STATE, EETH, ERTH, METH, NETH, RETH, SETH, TSETH, ImmDt, PortMask
from agent.wire.scapy.build import stacked, tunnel
from scenarios.cli.lab.sniff import command, ended_text
from scenarios.errors import UsageError
from scenarios.lab.packets.packet_text import WORDS, Filter, PacketWords, line_of
from scenarios.lab.start.deploy import host_settings
from testbed.model.fabric import Fabric, FabricSpec

FABRIC = Fabric.of(FabricSpec(2, 4, 4, 1))
HERE, THERE = (host_settings(FABRIC, "x", host).wire_address() for host in (0, 3))
EV = EvCodec().ev_of(1, 2, 0)
ENDS = FlowEnds(HERE, THERE, 4791, 2, EvCodec())


def record(*headers, ev=EV):
    packet = stacked(*tunnel(ENDS, ev, 2), *headers)
    return PacketWords(FABRIC).record(Ether(bytes(packet)), 1.5, "p1:leaf0>spine2")


def write():
    bth = BTH(opcode=0xCB, dqp=0x3001, psn=7, rtx=1)
    return bth, METH(msn=4), TSETH(), RETH(va=0x1000, dmalen=4), ImmDt(imm=9)


def test_a_write():
    found = record(*write(), Raw(b"abcd"))
    assert found == {
        "time": "1970-01-01T00:00:01.500000Z", "link": "p1:leaf0>spine2", "bytes": 150, "source": "h0",
        "destination": "h3", "opcode": "WRITE_ONLY_IMM", "qp": 0x3001, "psn": 7, "ev": "0xc0001102", "plane": 1,
        "spine": 2, "path": "p1: leaf0 > spine2 > leaf3", "rtx": True, "message": 4, "va": "0x1000", "imm": "0x9",
    }  # fmt: skip
    line = line_of(found)
    for part in (
        "00:00:01.500000Z",
        "h0 > h3 WRITE_ONLY_IMM",
        "qp 0x3001 psn 7",
        "ev 0xc0001102 (p1: leaf0 > spine2 > leaf3)",
    ):
        assert part in line
    assert line.endswith("rtx")


def test_a_sack_tells_its_ranges():
    seth = SETH(nxt=0x1F, cack_psn=10, sack_offset=1, sack_bitmap=0b1011, entropy=EV)
    found = record(BTH(opcode=0xDC, psn=10), seth, CC_STATE(), PortMask(port_mask=6))
    assert (found["cack"], found["ranges"], found["arrived"]) == (10, [(11, 12), (14, 14)], "11-12, 14")
    assert "cack 10 arrived 11-12, 14 of ev 0xc0001102 ports 1, 2" in line_of(found)


def test_an_acknowledgement_tells_how_many_messages_are_done():
    found = record(BTH(opcode=0xD1, psn=9), AETH(msn=1))
    assert (found["syndrome"], found["messages_done"]) == ("ACK", 1)
    assert line_of(found).endswith("syndrome ACK messages done 1")


def test_an_endpoint_request_tells_of_ports_if_it_is_of_them():
    said = [record(BTH(opcode=0xD8, psn=9), ERTH(op=op, port_status_mask=mask)) for op, mask in ((0, 4), (1, 0))]
    assert [(each["op"], each.get("ports")) for each in said] == [("PORT_STATUS_UPDATE", "2"), ("EV_PROBE", None)]
    assert record(BTH(opcode=0xD9, psn=9), EETH(op=1))["op"] == "EV_PROBE"


def test_a_nack_tells_its_reason():
    assert record(BTH(opcode=0xDD, psn=5), NETH(nack_psn=5, nack_reason=0x0B))["reason"] == "PSN_OOR_WINDOW"


def test_what_is_not_mrc_is_summed_up_by_scapy():
    found = PacketWords(FABRIC).record(Ether() / ARP(), 0, "p0:leaf0>spine0")
    assert found["opcode"] == "not MRC"
    assert "ARP" in line_of(found)


def test_an_announcement():
    said = Announcement(**dict.fromkeys(Announcement.__slots__, 3))
    (frame,) = encode_announcements(HERE, THERE, np.array([EV], np.uint32), said)
    assert "SprayCheck OPEN h3 > h3" in line_of(PacketWords(FABRIC).record(Ether(frame), 0, "x"))


@pytest.mark.parametrize(
    ("words", "taken"),
    [
        ("", True), ("write", True), ("sack", False), ("sack write", True), ("rtx", True), ("trimmed", False),
        ("psn=7", True), ("psn=8-20", False), ("spine=2 plane=1", True), ("spine=1", False), ("qp=0x3001", True),
        ("ev=0xc0001102", True), ("from=h0 to=h3", True), ("from=h3", False), ("announce", False),
    ],
)  # fmt: skip
def test_a_filter_takes_what_it_says(words, taken):
    assert Filter(words.split(), FABRIC).takes(record(*write())) is taken


@pytest.mark.parametrize("word", ["sacks", "psn=x", "psn=1-", "from=leaf3", "plane", "udp", "ev=0x", "rtx=1"])
def test_other_words_are_refused(word):
    with pytest.raises(UsageError, match="no word of a filter"):
        Filter([word], FABRIC)


def test_all_wrong_words_are_named_at_once():
    with pytest.raises(UsageError, match="'udp', 'psn=x' and 'plane' are no words of a filter; these are write,"):
        Filter(["udp", "sack", "psn=x", "plane"], FABRIC)


def test_what_the_fabric_does_not_have_is_refused_at_once():
    with pytest.raises(UsageError) as refused:
        Filter(["plane=2", "spine=1-9", "spine=4-9", "from=h4", "to=h3"], FABRIC)
    assert str(refused.value) == (
        "'plane=2': no such plane (planes are 0 to 1); 'spine=4-9': no such spine (spines are 0 to 3); "
        "'from=h4': no such host (hosts are h0 to h3)"
    )


def test_the_help_of_sniff_lists_every_word():
    assert set(WORDS) <= set((command.help or "").split())


@pytest.mark.parametrize(
    ("shown", "lost", "said"),
    [
        (1, 0, "1 packet"),
        (0, 1666, "0 packets; 1,666 packets of any kind came too fast to be shown; `spraylab capture` records them"),
        (2, 1, "2 packets; 1 packet of any kind came too fast to be shown; `spraylab capture` records them"),
    ],
)
def test_the_end_of_sniff_counts_what_was_shown_and_what_nobody_read(shown, lost, said):
    assert ended_text(shown, lost) == said
