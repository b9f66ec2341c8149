"""Defines the base of a scenario's models, and its quantities, as numbers or as written."""

from typing import Annotated, Any

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
