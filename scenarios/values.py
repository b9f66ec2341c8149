"""What all parts of a scenario are made of: the base of its models, and its quantities, as numbers or as written."""

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from faults.quantities import parse_bit_rate, parse_duration, parse_rate

_SIZE = re.compile(r"(\d+) ?(B|KiB|MiB|GiB)")
_UNIT_BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class Part(BaseModel):
    """Every part of a scenario: frozen, no unknown key, no silent conversion."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


def _bytes_of(value: Any) -> Any:
    """A size such as `16MiB` in bytes; whole numbers pass unchanged."""
    if not isinstance(value, str):
        return value
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"{value!r} is not a size; write bytes as 1048576, or with a unit as 1MiB (B, KiB, MiB, GiB)")
    return int(match[1]) * _UNIT_BYTES[match[2]]


def _rate_text(value: Any) -> str:
    """A rate as written, once it is known to carry a unit; a bare number is a ValueError with a hint."""
    text = str(value).strip()
    parse_rate(text)
    return text


def _bit_rate_text(value: Any) -> str:
    """A bit rate as written, once it is known to carry a unit and to be more than nothing."""
    text = str(value).strip()
    if not parse_bit_rate(text):
        raise ValueError(f"{text!r} is no rate at all; write it as 10Mbit or 1.5Gbit")
    return text


def _duration_text(value: Any) -> str:
    """A duration as written, once it is known to carry a unit."""
    text = str(value).strip()
    parse_duration(text)
    return text


def _off(value: Any) -> Any:
    """YAML 1.1 reads `off` as false."""
    return "off" if value is False else value


Bytes = Annotated[
    int,
    BeforeValidator(_bytes_of),
    Field(gt=0),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "exclusiveMinimum": 0},
                {"type": "string", "format": "bytes", "pattern": f"^{_SIZE.pattern}$"},
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
"""For choices of which one is `off`."""
