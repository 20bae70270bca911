"""The only nested part of the config file: `schedules`, each with a name and its fields.

A field is a text with placeholders, as any setting; nothing is nested in it, so an alias of YAML
cannot expand without limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gapless.errors import ConfigError
from gapless.settings.placeholder import PlaceholderError, expand

if TYPE_CHECKING:
    from gapless.settings.placeholder import Lookup

SECTION_KEY = "schedules"
FIELDS = {
    "topic": "topic",
    "cron": "cron",
    "every": "every",
    "zone": "zone",
    "missed": "missed",
    "key": "key",
    "eventType": "event_type",
    "payload": "payload",
    "startsAt": "starts_at",
}
"""The fields of a schedule in the file, and their names elsewhere."""
DECLARED_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A schedule as the file declares it: texts by field, empty ones left out."""

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
        return Declared(name=self.name, place=self.place, fields=found)

    def refused(self, why: str) -> ConfigError:
        """Return the error, with the schedule's place in the file."""
        return ConfigError(f"{self.place}: {SECTION_KEY}.{self.name}: {why}")

    def record(self) -> dict[str, str]:
        """Return the fields by their names elsewhere. Raises ConfigError without a topic."""
        if "topic" not in self.fields:
            raise self.refused("names no topic to publish into: topic: reports")
        return {"name": self.name} | {FIELDS[name]: text for name, text in self.fields.items()}
