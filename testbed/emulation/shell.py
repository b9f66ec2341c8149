"""Mininet's own command line on a fabric, able to read node names that contain a dash."""

from mininet.cli import CLI


class FabricCLI(CLI):
    """`FabricCLI(net.mininet)` runs until the user leaves; arguments as Mininet's CLI."""

    prompt = "spraylab> "
    identchars = f"{CLI.identchars}-"
