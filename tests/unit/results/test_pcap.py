"""Captures: what files are called, how tcpdump is called, what its last words mean."""

import pytest

from results.captures.tcpdump import CaptureCounts, counts_from, ends_of, most_packets, tcpdump_command
from testbed.model.node_names import LinkId, NodeId


@pytest.mark.parametrize(
    ("link", "names"),
    [
        (
            LinkId(0, NodeId.leaf(0, 3), NodeId.spine(0, 5)),
            ["p0_leaf3-spine5.leaf3-spine5.pcap", "p0_leaf3-spine5.spine5-leaf3.pcap"],
        ),
        (
            LinkId(1, NodeId.host(2), NodeId.leaf(1, 2)),
            ["p1_h2-leaf2.h2-plane1.pcap", "p1_h2-leaf2.leaf2-h2.pcap"],
        ),
    ],
    ids=str,
)
def test_files_say_plane_link_node_and_interface(link: LinkId, names: list[str]) -> None:
    assert [end.file_name for end in ends_of(link)] == names


def test_tcpdump_keeps_root_and_does_not_buffer() -> None:
    command = tcpdump_command("spine5", 128, 1000)
    assert command[:3] == ("tcpdump", "-i", "spine5")
    assert {"-U", "--immediate-mode"} <= set(command)
    assert command[command.index("-Z") + 1] == "root"
    assert command[command.index("-s") + 1] == "128"
    assert command[command.index("-c") + 1] == "1000"
    assert command[-2:] == ("-w", "-")


@pytest.mark.parametrize("snaplen", [64, 256, 9000])
@pytest.mark.parametrize("most_bytes", [1 << 16, 1_000_003, 1 << 29])
def test_a_full_file_is_no_larger_than_its_share_by_less_than_a_packet(snaplen: int, most_bytes: int) -> None:
    size = 24 + most_packets(most_bytes, snaplen) * (16 + snaplen)
    assert most_bytes - (16 + snaplen) < size <= most_bytes


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        (
            b"tcpdump: listening on spine5, link-type EN10MB\n8145 packets captured\n8150 packets received by filter\n"
            b"5 packets dropped by kernel\n",
            CaptureCounts(8145, 8150, 5),
        ),
        (
            b"1 packet captured\n2 packets received by filter\n3 packets dropped by kernel\n"
            b"4 packets dropped by interface\n",
            CaptureCounts(1, 2, 7),
        ),
        (b"tcpdump: listening on spine5\n", None),
    ],
    ids=["drops", "interface", "killed"],
)
def test_last_words(said: bytes, counts: CaptureCounts | None) -> None:
    assert counts_from(said) == counts
