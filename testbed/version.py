"""The version of spraylab, stated only here: the package, the command and the record of a run read it."""

VERSION = "0.1.0"
"""Version of this copy of the code, whichever copy is installed."""
