"""Mininet's command line on a fabric: each of its commands works, or says in one line why it cannot.

Accepts node names that contain a dash; in `py` a dash is an underscore, `p0_leaf0`. Writes no history file.
"""

import os
from typing import Any

from mininet.cli import CLI
from mininet.log import error

from testbed.emulation.nodes import Host
from testbed.errors import NotOfferedError, TestbedError
from testbed.root_environment import find_tool

_TERMINALS = {"xterm": "xterm", "gterm": "gnome-terminal"}
"""Mininet's command, and the program that it starts."""


class FabricCLI(CLI):
    """Mininet's CLI for a fabric: `FabricCLI(net)` runs until the user leaves; same arguments as Mininet's CLI."""

    prompt = "spraylab> "
    expected: tuple[type[Exception], ...] = (TestbedError, OSError)
    """Errors whose text is sufficient; for others the class is shown too."""
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
        """Use no history file: root would read and write a file in some user's home."""

    def onecmd(self, line: str) -> Any:
        """Run one command; an error becomes a line, and the command line continues."""
        try:
            return super().onecmd(line)
        except Exception as told:  # after any error the user's lab and earlier input stay usable
            kind = "" if isinstance(told, self.expected) else f"{type(told).__name__}: "
            error(f"*** {kind}{told}\n")
            return None

    def getLocals(self) -> dict[str, Any]:  # noqa: N802 - Mininet's name
        """Return names for `py` and `px`: nodes, also with the dash as an underscore, and `net`."""
        names: dict[str, Any] = super().getLocals()
        names.update({name.replace("-", "_"): node for name, node in self.mn.items()})
        return names

    def default(self, line: str) -> None:
        """Run a command for a node; report if a host that it names has no address."""
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
    """Raise NotOfferedError if a window cannot be opened."""
    if "DISPLAY" not in os.environ:
        instead = "use another terminal, and `spraylab exec NODE -- bash` there"
        raise NotOfferedError(what, "there is no X display here", instead)
    if find_tool(program) is None:
        raise TestbedError(f"{program} is not installed")
