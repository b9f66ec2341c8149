"""`python -m scenarios.cli`, the same as the command `spraylab`."""

from scenarios.cli.main import main

main(prog_name="spraylab")
