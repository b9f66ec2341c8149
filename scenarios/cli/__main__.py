"""Runs `python -m scenarios.cli`, the same as the command `spraylab`."""

import sys

from scenarios.isolated import isolate


def run() -> None:
    """Run `spraylab`: nothing else of the program is imported before the interpreter is isolated."""
    isolate()
    sys.argv[0] = "spraylab"
    from scenarios.cli.main import main

    main(prog_name="spraylab")


if __name__ == "__main__":
    run()
