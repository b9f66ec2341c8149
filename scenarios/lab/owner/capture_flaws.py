"""Checks whether the file of a finished capture holds what tcpdump counted: tcpdump does not notice a full disk."""

from pathlib import Path

from results.errors import ResultsError
from scenarios.lab.protocol import CaptureState
from scenarios.lab.start.disk_room import full_disk_text

_LEAST_PACKET_BYTES = 70
"""Least bytes per packet in a pcap file: its record's header of 16 bytes (pcap-savefile(5)), Ethernet and IPv6."""


def flaw_of(capture: CaptureState) -> str | None:
    """State why the file of a finished capture is wrong; tcpdump itself does not notice a full disk."""
    from results.captures.any_format import packets_in

    end, file = f"{capture.link} at {capture.node}", Path(capture.file)
    if not file.exists():
        return f"{end}: the file {file} is gone"
    if capture.captured is None:
        how = f"was {capture.ended}" if capture.ended.startswith("killed") else capture.ended or "died"
        return f"{end}: tcpdump {how} before the end, {file} is incomplete"
    full = full_disk_text(file.parent)
    because = f"; {full}" if full else ""
    try:
        written = packets_in(file)
    except (ResultsError, OSError) as error:
        return f"{end}: {error}{because}"
    if written != capture.captured:
        holds = f"{end}: {file} holds {written:,} of the {capture.captured:,} packets"
        return f"{holds}{because or '; was the disk full?'}"
    return None


def is_doubtful(capture: CaptureState) -> bool:
    """Return whether the packets of its file should be counted: the disk is full, or the file too short for them."""
    file = Path(capture.file)
    if capture.captured is None or not file.exists() or full_disk_text(file.parent):
        return True
    return file.stat().st_size < capture.captured * _LEAST_PACKET_BYTES
