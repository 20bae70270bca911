"""The schemas of a topic, which check its payloads when they are published, and when handled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from gapless.errors import InvalidPayloadError, UncheckedError
from gapless.features.schemas.conform import JsonSchema, NotASchemaError, json_schema
from gapless.log.event import NewEvent
from gapless.log.given import Events
from gapless.log.record import json_text

ANY_TYPE = "*"  # as in sql/features/schemas/functions/set_schema.sql


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A version of the schema of a type."""

    event_type: str
    version: int
    text: str

    def name(self, topic: str) -> str:
        """Return its name for people."""
        return f"schema {self.version} of {topic}/{self.event_type}"

    def read(self) -> JsonSchema:
        """Return the schema, ready to check. Raises NotASchemaError."""
        return json_schema(self.text)


@dataclass(frozen=True, slots=True)
class TopicSchemas:
    """The schemas of a topic: the versions of each type, the newest first."""

    by_type: dict[str, tuple[SchemaVersion, ...]]

    def of(self, event_type: object) -> tuple[SchemaVersion, ...]:
        """Return the versions that check events of a type; none: the events are not checked."""
        own = None if event_type is None else self.by_type.get(str(event_type))
        return own or self.by_type.get(ANY_TYPE, ())

    def checked(self, topic: str, events: Events) -> Events:
        """Return the events, each checked by the newest version; an iterator is checked as it goes.

        Raises InvalidPayloadError, and UncheckedError for a schema that cannot be read.
        """
        if isinstance(events, list):
            return [self._fit(topic, event, None) for event in events]
        return self._each(topic, events)

    def _each(self, topic: str, events: Iterator[Any]) -> Iterator[object]:
        for n, event in enumerate(events):
            yield self._fit(topic, event, n)

    def _fit(self, topic: str, event: Any, at: int | None) -> Any:
        """Return the event if its payload fits, as text. Raises InvalidPayloadError."""
        versions = self.of(event.event_type) if isinstance(event, NewEvent) else ()
        if not versions:
            return event
        newest, text = versions[0], json_text(event.payload, "payload")
        name = newest.name(topic)
        try:
            found = newest.read().mismatch(text)
        except NotASchemaError as error:
            raise UncheckedError(f"{name} cannot be checked: {error}") from error
        if found is not None:
            raise InvalidPayloadError(f"{found} ({name})", found, event=at, schema=name)
        return replace(event, payload=text.encode())

    def refusal(self, topic: str, event_type: str | None, text: str) -> str | None:
        """Return the newest version's error if no version takes a payload; None: one does.

        Versions that cannot be read do not count.
        """
        first = None
        for version in self.of(event_type):
            try:
                found = version.read().mismatch(text)
            except NotASchemaError:
                continue
            if found is None:
                return None
            first = first or f"{found} ({version.name(topic)})"
        return first


def topic_schemas(text: str) -> TopicSchemas:
    """Return the schemas from the text of the query rules_of."""
    by_type: dict[str, tuple[SchemaVersion, ...]] = {}
    for each in json.loads(text):
        version = SchemaVersion(each["event_type"], each["version"], each["schema"])
        by_type[version.event_type] = (*by_type.get(version.event_type, ()), version)
    return TopicSchemas(by_type)
