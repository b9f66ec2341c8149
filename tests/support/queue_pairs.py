"""Settings of queue pairs by their names alone, those of the core among them."""

from typing import Any

import msgspec

from agent.core.config import QpConfig
from agent.host.control.requests import QpSettings


def qp_settings(**named: Any) -> QpSettings:
    """As `QpSettings`, with the fields of its `core` beside the others; choices may be words."""
    core = {name: named.pop(name) for name in list(named) if name in QpConfig.__struct_fields__}
    words = {name: value for name, value in core.items() if isinstance(value, str)}
    return QpSettings(core=QpConfig(**core | _chosen(words)), **named)


def _chosen(words: dict[str, str]) -> dict[str, Any]:
    chosen = msgspec.convert(words, QpConfig)
    return {name: getattr(chosen, name) for name in words}
