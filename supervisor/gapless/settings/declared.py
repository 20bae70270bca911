"""The nested parts of the config file: names with fields each, such as `schedules`.

A feature declares its own. A field is a text with placeholders, as any setting; nothing is nested
in it, so an alias of YAML cannot expand without limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gapless.errors import ConfigError
from gapless.feature import Declaration
from gapless.settings.placeholder import PlaceholderError, expand

if TYPE_CHECKING:
    from gapless.settings.placeholder import Lookup

DECLARED_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSection:
    """A nested part of the file. fields: of each name, as the file and as others spell them.

    thing, such_as: for messages. make: makes the declaration of a name. Raises ConfigError.
    """

    key: str
    fields: Mapping[str, str]
    thing: str
    such_as: str
    make: Callable[[Declared], Declaration]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A name of a section with its fields: texts, empty ones left out."""

    section: NamedSection
    name: str
    place: str
    fields: Mapping[str, str] = field(default_factory=dict)

    def expanded(self, lookup: Lookup) -> Declared:
        """Replace the placeholders. Raises ConfigError for one without a value, or not a text."""
        found = {}
        for name, text in self.fields.items():
            try:
                value = expand(text, lookup).value
            except PlaceholderError as error:
                raise self.refused(f"{name}: {' '.join(str(error).split())}") from error
            if value is not None and not isinstance(value, str):
                raise self.refused(f"{name} must be text")
            if value:
                found[name] = value
        return replace(self, fields=found)

    def refused(self, why: str) -> ConfigError:
        """Return the error, with the place in the file."""
        return ConfigError(f"{self.place}: {self.section.key}.{self.name}: {why}")

    def record(self) -> dict[str, str]:
        """Return the fields by their names elsewhere."""
        named = {self.section.fields[name]: text for name, text in self.fields.items()}
        return {"name": self.name} | named

    def made(self) -> Declaration:
        """Return the declaration. Raises ConfigError."""
        return self.section.make(self)
