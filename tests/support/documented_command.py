"""The command `spraylab` of the documents, on a lab of the test's own: `python -m ... LAB WORDS...`."""

import sys

from scenarios.cli.main import main
from tests.support.command_words import options_of, resolved


def on_lab(lab: str, words: list[str]) -> list[str]:
    """The words, with `--lab` where the command takes it and nobody has said which."""
    command, rest = resolved(words)
    if "--lab" not in options_of(command) or "--lab" in words:
        return words
    at = len(words) - len(rest)
    return [*words[:at], "--lab", lab, *words[at:]]


if __name__ == "__main__":
    main(on_lab(sys.argv[1], sys.argv[2:]), prog_name="spraylab")
