"""What C programs know of the wire agrees with the frames Scapy builds."""

import platform
import subprocess
from shutil import which

import numpy as np
import pytest

from agent.wire import constants as c
from agent.wire.c_headers import c_struct, mrc_header, wire_headers
from agent.wire.dtypes import ANNOUNCE_FRAME, SHARE
from agent.wire.layers import BTH, Announce
from tests.unit.agent.wire.wire_frames import EVS, TOLD_SACK, TOLD_WRITE, scapy_sack, scapy_tunnel, scapy_write

ANNOUNCED = {
    name: 0x61 + i for i, name in enumerate(ANNOUNCE_FRAME["announce"].names) if name not in ("magic", "res41")
}


def defines() -> dict[str, int]:
    lines = (line.split() for line in mrc_header().splitlines() if line.startswith("#define MRC_"))
    return {name: int(value, 0) for _, name, value in lines}


@pytest.mark.parametrize(
    ("name", "size", "value"),
    [
        ("ETH_TYPE", 2, 0x86DD),
        ("OUTER_NH", 1, 41),
        ("OUTER_PLEN", 2, 40 + 8 + 12 + 4 + 4 + 16 + 4 + 8 + 4),
        ("INNER_NH", 1, 17),
        ("UDP_SPORT", 2, int(EVS[3]) >> 16),
        ("UDP_DPORT", 2, 4791),
        ("BTH_OPCODE", 1, 0xC9),
        ("BTH_PKEY", 2, 0xFFFF),
        ("BTH_VAR_RES", 1, 0),
        ("BTH_DQP_WORD", 4, 0x00ABCD),
        ("BTH_FLAGS", 1, 0xB0),
        ("BTH_PSN_WORD", 4, 0xB0A1A2A3),
        ("METH_RQMSN", 2, 0xB3B4),
        ("METH_MSN", 2, 0xB1B2),
        ("TSETH_TX_TIMESTAMP", 2, 0x1234),
        ("RETH_VA", 8, 0xC1C2C3C4C5C6C7C8),
        ("RETH_RKEY", 4, 0xD1D2D3D4),
        ("RETH_DMALEN", 4, 0xD5D6D7D8),
    ],
)
def test_c_offsets_point_into_scapys_write(name, size, value):
    offset = defines()[f"MRC_OFF_{name}"]
    assert int.from_bytes(bytes(scapy_write(TOLD_WRITE))[offset : offset + size], "big") == value


@pytest.mark.parametrize(
    ("name", "size", "value"),
    [
        ("SETH_M_PR", 2, 0x0022),
        ("SETH_ACK_PSN_OFFSET", 2, 0x3132),
        ("SETH_ENTROPY", 4, 0xB1B2B3B4),
        ("SETH_CACK_WORD", 4, 0xA1A2A3),
        ("SETH_MPR", 1, 0xC5),
        ("SETH_SACK_OFFSET", 2, 0x4142),
        ("SETH_SACK_BITMAP", 8, 0xD1D2D3D4D5D6D7D8),
        ("CC_STATE_TX_TIMESTAMP", 2, 0xE1E2),
        ("CC_STATE_OOO_COUNT", 2, 0x5152),
        ("CC_STATE_RCVD_WORD", 4, 0xC1F1F2F3),
    ],
)
def test_c_offsets_point_into_scapys_sack(name, size, value):
    offset = defines()[f"MRC_OFF_{name}"]
    assert int.from_bytes(bytes(scapy_sack(TOLD_SACK))[offset : offset + size], "big") == value


@pytest.mark.parametrize("name", ANNOUNCED)
def test_c_offsets_point_into_scapys_announcement(name):
    frame = bytes(scapy_tunnel(int(EVS[0]), 0, dport=c.UDP_PORT_ANNOUNCE) / Announce(**ANNOUNCED))
    offset, size = defines()[f"MRC_OFF_ANNOUNCE_{name.upper()}"], ANNOUNCE_FRAME["announce"][name].itemsize
    assert int.from_bytes(frame[offset : offset + size], "big") == ANNOUNCED[name]
    assert len(frame) == defines()["MRC_ANNOUNCE_FRAME_BYTES"]


def test_shares_lie_behind_the_announcement_in_scapys_too():
    closes = Announce(kind=c.AnnounceKind.CLOSE, spines=3, shares=[1, 2, 0xA1A2A3A4])
    frame = bytes(scapy_tunnel(int(EVS[0]), 0, dport=c.UDP_PORT_ANNOUNCE) / closes)
    start = defines()["MRC_OFF_SHARES"]
    assert np.frombuffer(frame[start:], SHARE).tolist() == [1, 2, 0xA1A2A3A4]
    assert defines()["MRC_SHARE_BYTES"] * 3 == len(frame) - start


def test_the_mark_is_the_lowest_bit_of_bth_byte_4():
    numbers = defines()
    plain, marked = bytes(BTH(opcode=0xCA)), bytes(BTH(opcode=0xCA, var_res=numbers["MRC_SPRAYCHECK_MARK"]))
    differing = [i for i in range(12) if plain[i] != marked[i]]
    assert differing == [numbers["MRC_OFF_BTH_VAR_RES"] - numbers["MRC_OFF_BTH"]] == [4]


def test_constants_of_the_mrc_header():
    numbers = defines()
    assert numbers["MRC_OP_WRITE_FIRST"] == 0xC6
    assert (numbers["MRC_PORT"], numbers["MRC_PORT_ALT"]) == (4791, 4971)
    assert numbers["MRC_WRITE_HEADERS_BYTES"] == 138
    assert numbers["MRC_SACK_FRAME_BYTES"] == 154


@pytest.mark.skipif(which("cc") is None, reason="no C compiler (cc) to try the header with")
def test_the_c_header_compiles(tmp_path):
    source = tmp_path / "try.c"
    source.write_text(mrc_header() * 2 + "int bytes[MRC_OFF_BTH_OPCODE == 102 ? 1 : -1];\n")
    subprocess.run(["cc", "-Wall", "-Werror", "-fsyntax-only", str(source)], check=True)


def test_a_struct_is_as_large_on_both_sides():
    layout = np.dtype([("lock", "u4"), ("count", "u8", 2), ("flag", "u1")], align=True)
    assert c_struct("thing", layout) == [
        "struct thing {",
        "\tstruct bpf_spin_lock lock;",
        "\t__u64 count[2];",
        "\t__u8 flag;",
        "};",
        f'_Static_assert(sizeof(struct thing) == {layout.itemsize}, "thing");',
        "",
    ]


@pytest.mark.skipif(which("clang") is None, reason="no clang to try the headers with")
def test_the_headers_compile_as_an_ebpf_program_includes_them(tmp_path):
    for name, text in wire_headers().items():
        (tmp_path / name).write_text(text)
    source = tmp_path / "try.c"
    source.write_text('#include "mrc_frame.h"\n#include "mrc_frame.h"\nint bytes[FRAME_BYTES == 114 ? 1 : -1];\n')
    command = ("clang", "-Wall", "-Werror", "-target", "bpf", "-fsyntax-only")
    system = f"/usr/include/{platform.machine()}-linux-gnu"
    subprocess.run([*command, "-I", system, "-I", str(tmp_path), str(source)], check=True)
