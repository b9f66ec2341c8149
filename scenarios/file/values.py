"""The base of a scenario's models, its quantities, and how errors quote a value as it is written in the document."""

from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from faults.quantities import SIZE, parse_bit_rate, parse_bytes, parse_duration, parse_rate


class Part(BaseModel):
    """Every part of a scenario: frozen, no unknown key, no silent conversion."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


def _bytes_of(value: Any) -> Any:
    """Convert a size such as `16MiB` to bytes; whole numbers pass unchanged."""
    return parse_bytes(value) if isinstance(value, str) else value


def _rate_text(value: Any) -> str:
    """Check that a rate has a unit and return it as written; a bare number is a ValueError with a hint."""
    text = str(value).strip()
    parse_rate(text)
    return text


def _bit_rate_text(value: Any) -> str:
    """Check that a bit rate has a unit and is more than zero; return it as written."""
    text = str(value).strip()
    if not parse_bit_rate(text):
        raise ValueError(f"{text!r} is a rate of zero; write it as 10Mbit or 1.5Gbit")
    return text


def _duration_text(value: Any) -> str:
    """Check that a duration has a unit; return it as written."""
    text = str(value).strip()
    parse_duration(text)
    return text


def _off(value: Any) -> Any:
    """Accept false as `off`, because YAML 1.1 reads it so."""
    return "off" if value is False else value


Bytes = Annotated[
    int,
    BeforeValidator(_bytes_of),
    Field(gt=0),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "exclusiveMinimum": 0},
                {"type": "string", "format": "bytes", "pattern": f"^{SIZE.pattern}$"},
            ]
        }
    ),
]
Rate = Annotated[
    str,
    BeforeValidator(_rate_text),
    WithJsonSchema({"type": "string", "format": "share", "pattern": r"^([0-9]+(\.[0-9]+)?|\.[0-9]+) *(%|bp)$"}),
]
BitRate = Annotated[
    str,
    BeforeValidator(_bit_rate_text),
    WithJsonSchema(
        {"type": "string", "format": "bit-rate", "pattern": r"^([0-9]+(\.[0-9]+)?|\.[0-9]+) *[kKMG]?bit(/s)?$"}
    ),
]
Duration = Annotated[
    str,
    BeforeValidator(_duration_text),
    WithJsonSchema(
        {
            "type": ["string", "integer"],
            "format": "time",
            "pattern": r"^([0-9]+(\.[0-9]+)?|\.[0-9]+) *(ns|us|ms|s|min)$|^0$",
        }
    ),
]
OffIsAWord = BeforeValidator(_off)
"""Validator of choices of which one is `off`."""

_MOST_QUOTED = 60
"""Most characters of a quoted value (our choice)."""


def written(value: Any) -> str:
    """Return `[1, 2]`, `{a: b}`, `true`, `'text'`; `nothing` where there is none. Long values are cut."""
    if value is None:
        return "nothing"
    text = repr(value) if isinstance(value, str) else _flow(value)
    return text if len(text) <= _MOST_QUOTED else f"{text[: _MOST_QUOTED - 3]}..."


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=1 << 20)
    return " ".join(text.removesuffix("...\n").split())
