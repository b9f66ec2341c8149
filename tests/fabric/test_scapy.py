"""A lab in which one host moves packets by Scapy: a lossy run between both engines, `sniff` and the console."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.utils import PcapNgReader

from tests.support.namespaces import needs_root
from tests.support.spraylab_command import Lab, own_lab, trusted

pytestmark = [pytest.mark.root, needs_root]

BAD = "p0:leaf0>spine1"
SCENARIO = f"""
version: 1
name: mixed
topology: {{planes: 2, leaves: 3, spines: 2}}
transport: {{pmtu: 256, window_pkts: 64, ack_timeout_ms: 2000, ev: {{loss_policy: "off"}}}}
workloads:
  - {{type: write, pairs: [[0, 1], [0, 2], [1, 0], [1, 2], [2, 1]], packets: 1600, message_bytes: 8KiB}}
faults:
  - {{link: "{BAD}", drop: 10%}}
detector: {{min_rate: 10%}}
expect: {{detected: ["{BAD}"], retransmissions_within: 5%}}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("runs")
    (folder / "mixed.yaml").write_text(SCENARIO)
    with own_lab(folder) as lab:
        lab("up", "--engine", "scapy:h0", "--planes", "2", "--leaves", "3", "--spines", "2", "--workers", "per-host")
        yield lab


def test_a_scapy_host_and_a_ring_host_write_to_each_other_over_a_link_that_drops(lab: Lab):
    inspected = lab.json("inspect")
    assert inspected["scapy_hosts"] == [0]
    nodes = [each["node"] for each in inspected["children"] if each["name"].startswith("worker")]
    assert nodes == ["h0", "h1", "h2"], "a process per host, of either engine"
    summary = trusted(lab, "run", "--attach", str(lab.runs / "mixed.yaml"))
    assert summary["outcome"] == "pass"
    assert [each["link"] for each in summary["detected"]["named"]] == [BAD]
    assert (summary["totals"]["bytes_verified"], summary["totals"]["bytes_wrong"]) == (5 * 1600 * 256, 0)


def test_a_test_of_writes_takes_a_window_that_scapy_can_handle(lab: Lab):
    told = lab("perf", "write-bw", "h1", "h0", "-s", "4096", "-n", "30", "-q", "2", code=(0, 5)).stdout
    assert "window 125 packets" in told, "two queue pairs of 250 packets, half of 500 ms"
    assert "Scapy builds and reads the packets of h0" in told
    told = lab("perf", "write-lat", "h1", "h2", "-n", "5", code=(0, 5)).stdout
    assert "window 256 packets" in told
    assert "Scapy" not in told


def test_a_console_in_a_switch_offers_what_a_switch_can(lab: Lab):
    said = lab("scapy", "p0-leaf1", "-c", "lab()").stdout
    assert "mrc_write" not in said
    assert "a switch sends nothing of its own" in said
    assert "sniff(iface='spine0'" in said


@pytest.mark.parametrize(("line", "error"), [("1/0", "ZeroDivisionError"), ("1 +", "SyntaxError")])
def test_an_error_of_a_typed_line_shows_that_line_only(lab: Lab, line: str, error: str):
    told = lab("scapy", "h0", "-c", line, code=1).stderr
    assert error in told
    assert "isolated" not in told
    assert "scapy_console" not in told


def listening(lab: Lab, *words: str) -> subprocess.Popen[str]:
    """`spraylab sniff` that hears from now on."""
    hearing = lab.start("sniff", *words, "--seconds", "60")
    assert hearing.stderr is not None
    assert hearing.stderr.readline().startswith("listening on ")
    return hearing


def test_a_link_is_heard_while_a_console_writes_over_it(lab: Lab, tmp_path: Path):
    file = tmp_path / "heard.pcapng"
    hearing = listening(lab, "--json", "p1:leaf0>spine1", "write", "-c", "1", "-w", str(file))
    line = "print('answers:', sorted(answer[BTH].sprintf('%BTH.opcode%') for answer in mrc_write(h1, b'x' * 99, 1, 1)))"
    said = lab("scapy", "h0", "-c", line).stdout
    assert "answers: ['ACKNOWLEDGE', 'SACK']" in said
    assert "sent     Ether / IPv6 / IPv6 / UDP / MRC WRITE_ONLY" in said
    stdout, stderr = hearing.communicate()
    (record,) = map(json.loads, stdout.splitlines())
    assert (record["source"], record["destination"], record["opcode"]) == ("h0", "h1", "WRITE_ONLY")
    assert (record["path"], record["link"]) == ("p1: leaf0 > spine1 > leaf1", "p1:leaf0>spine1")
    assert "1 packet" in stderr
    (packet,) = PcapNgReader(str(file))
    assert bytes(packet).endswith(b"x" * 99 + b"\0" + bytes(packet)[-4:])
    assert bytes(packet)[38:46].hex() == "5f00000011012101", "as it arrived at the spine"


BY_HAND = """
there = memory(h1, 64)
def write(psn, data, **bth):
    return (path(h0, h1, plane=1) / BTH(opcode="WRITE_ONLY", dqp=there.dqp, a=1, psn=psn, **bth)
        / METH(msn=psn) / TSETH() / RETH(va=there.va + psn, rkey=there.rkey, dmalen=1) / Raw(data))
(sack,) = exchange(write(2, b"c"), write(0, b"a"))[SETH][-1:]
print("arrived:", sack.cack_psn, sack_ranges(sack.cack_psn, sack.sack_offset, sack.sack_bitmap))
print("in memory:", bytes(there.data[:3]))
probe = path(h0, h1, plane=1, spine=1) / BTH(opcode="ENDPOINT_REQUEST", dqp=2, psn=9) / ERTH(op="EV_PROBE")
print("probe:", [answer[BTH].psn for answer in exchange(probe) if EETH in answer])
"""


def test_packets_built_by_hand_are_answered_as_those_of_an_agent(lab: Lab):
    said = lab("scapy", "h0", "-c", f"exec({BY_HAND!r})").stdout
    assert "arrived: 0 [(2, 2)]" in said
    assert "in memory: b'a\\x00c'" in said
    assert "probe: [9]" in said


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("sniff", "p0:leaf9-spine1"), 2, "link"),
        (("sniff", "h0", "sacks"), 2, "no word of a filter"),
        (("scapy", "h9"), 2, "h9"),
        (("scapy", "p0-leaf0", "-c", "mrc_write(h1)"), 1, "is a switch"),
        (("scapy", "h0", "-c", "path(h0, h1, spine=7)"), 1, "spines 0 to 1"),
        (("scapy", "h0", "-c", "path('h0', 'h7')"), 1, "hosts are h0 to h2"),
        (("scapy", "h0", "-c", "transmit(IPv6() / UDP())"), 1, "begins with path(h0, ...)"),
        (("scapy", "h0", "-c", "mrc_write(h1, bytes(5000))"), 1, "at most 4096 bytes"),
    ],
)
def test_what_cannot_be_is_said(lab: Lab, words: tuple[str, ...], code: int, said: str):
    assert said in lab(*words, code=code).stderr


def test_the_console_reads_no_file_of_a_user(lab: Lab, tmp_path: Path):
    startup = tmp_path / "scapy/startup.py"
    startup.parent.mkdir()
    startup.write_text(f"open({str(tmp_path / 'USED')!r}, 'w')")
    (startup.parent / "prestart.py").write_text(startup.read_text())
    homes = {name: str(tmp_path) for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "HOME")}
    lab("scapy", "h0", "-c", "lab()", env=homes)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scapy"]


def test_listening_ends_with_its_lab_and_goes_on_when_a_link_comes_back(lab: Lab):  # the last test: no lab after it
    hearing, of_host = listening(lab, "p1:leaf0>spine1"), listening(lab, "h2", "nack")
    lab("fault", "set", "p1:leaf0-spine1", "--down")
    lab("fault", "clear", "--all")
    lab("scapy", "h0", "-c", "mrc_write(h1, b'up again', 1, 1)")
    assert hearing.stdout is not None
    assert "h0 > h1 WRITE_ONLY" in hearing.stdout.readline()
    lab("down")
    for each in (hearing, of_host):  # of a host both ends of each link are held open
        stderr = each.communicate(timeout=20)[1]
        assert each.returncode == 4
        assert "taken down" in stderr
