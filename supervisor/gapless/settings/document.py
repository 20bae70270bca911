"""The contents of a flat YAML file: entries with their line, and values as they were written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gapless.settings.declared import Declared


@dataclass(frozen=True, slots=True)
class Nested:
    """Stands for a mapping or a list of lists: no setting has such a value."""

    def __repr__(self) -> str:
        return "nested"


Raw = str | tuple[str, ...] | Nested | None
"""A value as written, placeholders and all; None is YAML's null or nothing after the colon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingEntry:
    """One key of a file."""

    key: str
    line: int
    raw: Raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The entries of one file by key; without a path it represents no file."""

    path: Path | None = None
    entries: Mapping[str, SettingEntry] = field(default_factory=dict)
    declared: tuple[Declared, ...] = ()

    def place(self, entry: SettingEntry) -> str:
        """Return the place of an entry: `config/gapless.yml line 12`."""
        return f"{self.path} line {entry.line}"
