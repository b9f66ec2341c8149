"""Runs `spraylab sniff` once Scapy is loaded: receives, decodes, filters, prints and writes packets."""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from scapy.layers.l2 import Ether

from agent.wire.constants import ETHERNET_BYTES
from results.captures.reader import Captured, Direction, Interface
from results.captures.writer import PcapngWriter
from scenarios.cli.output import Output
from scenarios.lab.lab_dir import LabDir, LabState
from scenarios.lab.packets.packet_text import Filter, PacketWords, line_of
from scenarios.lab.packets.sniffing import Heard, Listening
from testbed.model.node_names import DirectedLink

_LINKTYPE_ETHERNET = 1
_WHOLE_FRAMES = 65535


class Sniffing:
    """One call of the command."""

    def __init__(
        self,
        labdir: LabDir,
        state: LabState,
        ways: Sequence[DirectedLink],
        words: Sequence[str],
        writer: PcapngWriter | None,
    ) -> None:
        """Parse the filter. Raises `UsageError` for words that are not a filter."""
        fabric = state.fabric()
        self._filter = Filter(words, fabric)
        self._speaker = PacketWords(fabric)
        self._listening = Listening(labdir, state.owner, ways, fabric.spec.mtu + ETHERNET_BYTES)
        self._numbers = {way: number for number, way in enumerate(ways)}
        self._writer = writer
        self._stopped = False
        self.shown = 0
        self.lost = 0
        """Return the number of frames lost because a socket was full."""

    def run(self, output: Output, count: int | None, seconds: int | None) -> None:
        """Print until enough packets were shown, the time has passed, or Ctrl-C."""
        if self._writer is not None:
            for way in self._numbers:
                place = Interface(f"{way} at {way.receiver}", _LINKTYPE_ETHERNET, _WHOLE_FRAMES)
                self._writer.interface(place, "spraylab sniff")
        until_s = None if seconds is None else time.monotonic() + seconds
        with self._listening, self._stopped_by_signals():
            output.say(f"listening on {self._places()}; Ctrl-C ends")
            for heard in self._listening.frames():
                if heard is not None and self._show(heard, output) and self.shown == count:
                    break
                if self._stopped or (until_s is not None and time.monotonic() > until_s):
                    break
            self.lost = self._listening.lost()

    def _places(self) -> str:
        """Name the links that are listened on."""
        return str(*self._numbers) if len(self._numbers) == 1 else f"{len(self._numbers)} directions of links"

    def _show(self, heard: Heard, output: Output) -> bool:
        """Return whether a packet passes the filter."""
        record = self._speaker.record(Ether(heard.frame), heard.time_ns / 1e9, str(heard.way))
        if not self._filter.takes(record):
            return False
        if output.as_json:
            output.line(record)
        else:
            output.text(line_of(record))
        if self._writer is not None:
            packet = Captured(heard.time_ns, len(heard.frame), heard.frame, 0)
            self._writer.packet(self._numbers[heard.way], packet, Direction.INBOUND)
        self.shown += 1
        return True

    @contextmanager
    def _stopped_by_signals(self) -> Iterator[None]:
        """Let Ctrl-C and SIGTERM end the loop between two packets, so that the file is complete."""

        def stop(*_: Any) -> None:
            self._stopped = True

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
