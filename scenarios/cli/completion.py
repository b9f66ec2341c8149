"""Completes commands, options, links, nodes and scenarios in a shell: `spraylab completion`.

In bash, words may contain its separators (`p0:leaf3-spine5`) and special signs (`>`, `*`): bash shows and replaces only
what follows the last of `COMP_WORDBREAKS`, and inserts the result unchanged.
"""

import os
import re
from typing import Any

import click
from click.shell_completion import (
    CompletionItem,
    ShellComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

_SCRIPT = """\
%(complete_func)s() {
    local IFS=$'\\n' type value
    COMPREPLY=()
    while IFS=',' read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(
        export COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORDBREAKS %(complete_var)s=bash_complete
        "$1" 2>/dev/null
    )
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

_FOR_BASH = re.compile(r"[>*?\[\]<&;|() $!\\\"'`]")
"""Characters that bash changes outside of quotes."""


class BashComplete(ShellComplete):
    """Bash completion like click's own, which supports neither colons nor quoting."""

    name = "bash"
    source_template = _SCRIPT

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor's, and the typed part of that one, without quotes."""
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)
        if not self._word():
            words.append("")
        return words[1:-1], words[-1]

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return the text by which bash replaces the part after the last separator."""
        return f"{item.type},{in_place_of(self._word(), str(item.value), os.environ.get('COMP_WORDBREAKS', ''))}"

    @staticmethod
    def _word() -> str:
        """Return the word at the cursor as it is typed."""
        return word_at_end(os.environ["COMP_LINE"])


def word_at_end(line: str) -> str:
    """Return the last word of a line as it is typed, with its quotes; empty after a blank."""
    start, quote, escaped = 0, "", False
    for at, letter in enumerate(line):
        if escaped:
            escaped = False
        elif letter == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter.isspace():
            start = at + 1
    return line[start:]


def in_place_of(word: str, value: str, breaks: str) -> str:
    """Return the part of `value` that bash expects for `word`, which is being typed; `breaks` are bash's separators."""
    if word[:1] in ("'", '"'):
        return value
    quoted = _FOR_BASH.sub(r"\\\g<0>", value)
    end = max((at + 1 for at, letter in enumerate(word) if letter in breaks and word[at - 1 : at] != "\\"), default=0)
    return quoted[end:] if quoted.startswith(word[:end]) else quoted


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL; for bash: eval "$(spraylab completion bash)"."""
    add_completion_class(BashComplete)
    kind = get_completion_class(shell)
    assert kind is not None, "click supports all shells that the option accepts"
    root = context.find_root()
    click.echo(kind(root.command, {}, "spraylab", "_SPRAYLAB_COMPLETE").source())
