"""Mininet's own command line on a fabric: every command of it works, or says in one line why it cannot.

Knows node names that contain a dash; `py` knows them with an underscore, `p0_leaf0`. Writes no history file.
"""

import os
from typing import Any

from mininet.cli import CLI
from mininet.log import error

from testbed.emulation.nodes import Host
from testbed.errors import NotOfferedError, TestbedError
from testbed.tools import find_tool

_TERMINALS = {"xterm": "xterm", "gterm": "gnome-terminal"}
"""Mininet's word, and the program behind it."""


class FabricCLI(CLI):
    """`FabricCLI(net)` runs until the user leaves; arguments as Mininet's CLI."""

    prompt = "spraylab> "
    expected: tuple[type[Exception], ...] = (TestbedError, OSError)
    """Errors whose text says all; of another one its class is shown, too."""
    identchars = f"{CLI.identchars}-"
    helpStr = (  # noqa: N815 - Mininet's name
        "You may also send a command to a node using:\n"
        "  <node> command {args}\n"
        "For example:\n"
        "  p0-leaf0 ip -6 route show table local\n"
        "Names of hosts become their addresses (with --host-stack), so this works:\n"
        "  h0 ping -c1 h1\n"
        "In py and px a dash is an underscore:\n"
        "  py p0_leaf0.wanted.routes\n"
        "Programs that draw on the terminal need noecho, or a terminal of their own:\n"
        "  noecho h1 vi foo.py\n"
        "  xterm h1\n\n"
    )

    @classmethod
    def initReadline(cls) -> None:  # noqa: N802 - Mininet's name
        """No history file: root would read and write what is in some user's home."""

    def onecmd(self, line: str) -> Any:
        """Do one command; an error is a line, and the command line goes on."""
        try:
            return super().onecmd(line)
        except Exception as told:  # whatever it was, the user's lab and what was typed before stay usable
            kind = "" if isinstance(told, self.expected) else f"{type(told).__name__}: "
            error(f"*** {kind}{told}\n")
            return None

    def getLocals(self) -> dict[str, Any]:  # noqa: N802 - Mininet's name
        """Names for `py` and `px`: nodes, also with the dash as an underscore, and `net`."""
        names: dict[str, Any] = super().getLocals()
        names.update({name.replace("-", "_"): node for name, node in self.mn.items()})
        return names

    def default(self, line: str) -> None:
        """A command for a node; says so when a host that it names has no address."""
        first, args, _ = self.parseline(line)
        if first in self.mn:
            named = [self.mn[word] for word in (args or "").split() if word in self.mn]
            for node in named:
                if isinstance(node, Host) and node.IP() is None:
                    error(f"*** {node} has no address and stays a name: build with --host-stack\n")
        super().default(line)

    def do_dpctl(self, line: str) -> None:
        """Not offered: leaves and spines have no flow tables."""
        for switch in self.mn.switches[:1]:
            switch.dpctl(*line.split())

    def do_source(self, line: str) -> None:
        """Read commands from a file: source FILE."""
        words = line.split()
        if len(words) == 1 and not os.path.isfile(words[0]):
            raise TestbedError(f"there is no file {words[0]}")
        super().do_source(line)

    def do_xterm(self, line: str, term: str = "xterm") -> None:
        """Open a terminal for every node: xterm NODE... Needs an X display."""
        _require_display(_TERMINALS[term], term)
        super().do_xterm(line, term)

    def do_x(self, line: str) -> None:
        """Run an X11 program in a node: x NODE COMMAND."""
        node = line.split()[:1]
        if node and node[0] not in self.mn:
            raise TestbedError(f"there is no node {node[0]}")
        _require_display("socat", "x")
        super().do_x(line)

    def do_switch(self, line: str) -> None:
        """Crash a leaf or spine, or start it again: switch NODE stop|start."""
        words = line.split()
        if len(words) == 2 and not self._is_switch(words[0]):
            raise TestbedError(f"there is no leaf or spine {words[0]}")
        super().do_switch(line)

    def _is_switch(self, name: str) -> bool:
        return name in self.mn and self.mn[name] in self.mn.switches


def _require_display(program: str, what: str) -> None:
    """Raise NotOfferedError where a window cannot be opened."""
    if "DISPLAY" not in os.environ:
        instead = "use another terminal, and `spraylab exec NODE -- bash` there"
        raise NotOfferedError(what, "there is no X display here", instead)
    if find_tool(program) is None:
        raise TestbedError(f"{program} is not installed")
