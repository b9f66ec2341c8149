"""The version of spraylab, stated here only: the package, the command and the record of a run take it from here."""

VERSION = "0.1.0"
"""Of this copy of the code, whichever copy is installed."""
