"""Damage to the folder of a run, drawn from a seeded generator: values, keys, lines, bytes and whole files."""

import json
import os
import random
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

DEEP = 100_000
"""Levels of nesting, far beyond what any reader can follow."""

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30, 0.5, -0.5, 1e308, -1e308,
    1e-308, "", "x", "1", "\x1b]0;title\x07", "\x00", "$\\frac{", "a" * 100_000, "p0:leaf3>spine5", "p9:leaf99>spine99",
    "p*:leaf*>spine*", "0x", "-0x1", "0xfffffffff", "h99999999999999999999", "[/b]", "\u2028\u202e",
    "{}", [], {}, [[]], [None],
    [1] * 1000, [-1], [2**63], ["x"], {"x": 1}, {"0x": 1}, {"": None}, [[["x"]]], {"a": {"b": []}},
)  # fmt: skip
"""What stands in the place of a value."""

YAML_TEXTS = (
    "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)),
    "a: &a\n  b: *a\n",
    "[" * 5000,
    "{" * 5000,
    "a: " + "[" * DEEP + "]" * DEEP,
    "- " * 3000 + "x",
    "name: \"\\ud800\"\n",
    "name: !!python/object:os.system x\n",
    "name: !!binary abc\n",
    "name: 2026-01-01\nversion: 1\n",
    "1: 2\nnull: 3\n",
    "? [a, b]\n: c\n",
    "version: 2\nname: other\n",
    "version: 1\nname: [a]\nfaults: 7\nevents: {a: b}\n",
    "version: 1\nname: {a: b}\ndescription: [1, {c: d}]\n",
    "faults: [{link: 1}, 2, null]\n",
    "seed: 99999999999999999999999999\nrate: 1e999\n",
    "x: .nan\ny: .inf\nz: 0x_\n",
    "x: !!int q\ny: !!timestamp 1-1-1\nz: !!float w\n",
    "a: b: c",
    "\t- x",
    "name: \"\\x1b[2J\\x07\"\n",
    "%YAML 9.9\n---\na: b\n",
    "a: 1\n---\nb: 2\n",
    "just text",
    "[1, 2, 3]",
    "null",
    "\ufeffversion: 1\n",
    "# nothing\n" * 200_000,
)  # fmt: skip
"""What stands in the place of a scenario."""


def damage(folder: Path, chance: random.Random) -> str:
    """Damage one file of a run's folder, sometimes in several places; what was done, for people."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    file = chance.choice(files)
    how = chance.choice((*_HOW.get(file.suffix, (_bytes,)), _bytes, _whole))
    return f"{file.relative_to(folder)}: {how(file, chance)}"


def _values(file: Path, chance: random.Random) -> str:
    """One to three values, keys or entries of one document or line."""
    lines = file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]
    if not [line for line in lines if line.strip()]:
        return _bytes(file, chance)
    at = chance.choice([number for number, line in enumerate(lines) if line.strip()])
    document = json.loads(lines[at])
    told = [_spoil(document, chance) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
    lines[at] = json.dumps(document)
    everywhere = chance.random() < 0.2 and file.suffix == ".jsonl"
    if everywhere:  # a version that writes otherwise does so in every line
        lines = [lines[at]] * len(lines)
    file.write_text("\n".join(lines) + "\n")
    return f"line {at + 1}{' everywhere' if everywhere else ''}: {'; '.join(told)}"


def _spoil(document: Any, chance: random.Random) -> str:
    """One place of a document."""
    holder, key = chance.choice(list(_places(document)) or [(document, None)])
    if key is None:
        return "nothing to spoil"
    what = chance.choice(("value", "value", "value", "rename", "remove", "nest"))
    if what == "rename" and isinstance(holder, dict):
        holder[f"{key}_"] = holder.pop(key)
    elif what == "remove":
        del holder[key]
    elif what == "nest":
        holder[key] = [holder[key]]
    else:
        holder[key] = value = deepcopy(chance.choice(VALUES))
        return f"{key} = {str(value)[:40]!r}"
    return f"{what} {key}"


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every key and position inside a value, with what holds it."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    found = [(value, key) for key in keys]
    return found + [place for key in keys for place in _places(value[key])]


def _deep(file: Path, chance: random.Random) -> str:
    """One value of a line becomes lists in lists."""
    text = file.read_text().splitlines() or ["{}"]
    at = chance.randrange(len(text)) if file.suffix == ".jsonl" else 0
    nested = "[" * DEEP + "]" * DEEP if chance.random() < 0.5 else '{"a":' * DEEP + "1" + "}" * DEEP
    key = chance.choice(("evs", "links", "unknown", "flows", "count", "v"))
    line = "".join(text) if file.suffix == ".json" else text[at]
    line = f'{{"{key}":{nested},{line.strip().removeprefix("{")}'
    file.write_text(line if file.suffix == ".json" else "\n".join([*text[:at], line, *text[at + 1 :], ""]))
    return f"line {at + 1}: {key} nested {DEEP} deep"


def _version(file: Path, _: random.Random) -> str:
    """As a later version would write it."""
    file.write_text(file.read_text().replace('"v":1', '"v":2').replace('"v": 1', '"v": 2'))
    return "v is 2"


def _lines(file: Path, chance: random.Random) -> str:
    """Lines lost, doubled, joined or in another order."""
    lines = file.read_bytes().splitlines(keepends=True)
    if not lines:
        return _bytes(file, chance)
    at, what = chance.randrange(len(lines)), chance.choice(("lost", "doubled", "joined", "shuffled", "cut"))
    if what == "shuffled":
        chance.shuffle(lines)
    new = {"lost": b"", "doubled": lines[at] * 2, "joined": lines[at].rstrip(), "cut": lines[at][: len(lines[at]) // 2]}
    lines[at] = new.get(what, lines[at])
    file.write_bytes(b"".join(lines))
    return f"line {at + 1} {what}"


def _bytes(file: Path, chance: random.Random) -> str:
    """Bytes changed, put in, taken out, or cut off."""
    data = bytearray(file.read_bytes())
    what = chance.choice(("change", "insert", "remove", "cut"))
    for _ in range(chance.choice((1, 3, 30))):
        at = chance.randrange(len(data) + 1)
        if what == "change" and at < len(data):
            data[at] = chance.randrange(256)
        elif what == "insert":
            data[at:at] = chance.randbytes(chance.choice((1, 4, 100)))
        elif what == "remove":
            del data[at : at + chance.choice((1, 4, 100))]
    if what == "cut":
        del data[chance.randrange(len(data) + 1) :]
    file.write_bytes(data)
    return f"bytes: {what}"


def _whole(file: Path, chance: random.Random) -> str:
    """The file gone, empty, of another kind or in another's place."""
    what = chance.choice(("gone", "empty", "folder", "pipe", "noise", "other", "nothing"))
    others = [path for path in file.parent.iterdir() if path.is_file() and path != file]
    other = chance.choice(sorted(others)).read_bytes() if others else b""
    file.unlink()
    if what == "folder":
        file.mkdir()
    elif what == "pipe":
        os.mkfifo(file)
    elif what != "gone":
        new = {"empty": b"", "noise": chance.randbytes(1000), "other": other, "nothing": b"null\n"}
        file.write_bytes(new[what])
    return what


def _yaml(file: Path, chance: random.Random) -> str:
    text = chance.choice(YAML_TEXTS)
    file.write_text(text)
    return repr(text[:40])


def _fields(file: Path, chance: random.Random) -> str:
    """Four bytes, as most fields of a capture have, become a number at the edge of something."""
    data = bytearray(file.read_bytes())
    at = chance.choice((0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 4 * chance.randrange(len(data) // 4 + 1)))
    number = chance.choice((0, 1, 3, 7, 12, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x24000001, 0x0A0D0D0A, 1 << 24))
    data[at : at + 4] = number.to_bytes(4, chance.choice(("little", "big")))
    file.write_bytes(data)
    return f"field at {at} is {number:#x}"


_HOW: dict[str, tuple[Callable[[Path, random.Random], str], ...]] = {
    ".json": (_values, _values, _values, _values, _deep, _version),
    ".jsonl": (_values, _values, _values, _values, _lines, _deep, _version),
    ".yaml": (_yaml, _yaml, _yaml),
    ".pcap": (_fields, _fields, _fields),
    ".pcapng": (_fields, _fields, _fields),
}
"""By how a file's name ends; likelier ones more than once."""
