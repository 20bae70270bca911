"""The settings in force, each with its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless.settings.record import catalog

if TYPE_CHECKING:
    from gapless.settings import Loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingLine:
    """A setting as its file spells it: value is its text, source as in Loaded.sources."""

    key: str
    value: str
    source: str


def list_settings(loaded: Loaded) -> list[SettingLine]:
    """Return each setting with its value and source; of the DSN only whether there is one."""
    lines = []
    for key, setting in catalog().items():
        value = loaded.settings.value(setting)
        if key == "dsn" and value:
            value = "(not shown)"
        elif isinstance(value, tuple):
            value = ", ".join(map(str, value))
        text = "" if value is None else str(value)
        lines.append(SettingLine(key=key, value=text, source=loaded.sources[key]))
    return lines
