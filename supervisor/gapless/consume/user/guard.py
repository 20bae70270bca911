"""Keep events that fit no version of their schema from a handler that says on_invalid.

The schemas are read through the session that handles, again after LOOK_S. The unit of such an event
is a dead letter, whole (I5).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

from psycopg import AsyncConnection, Connection
from psycopg.rows import tuple_row

from gapless.consume.batch import Batch
from gapless.consume.unit import Unit
from gapless.consume.verdict.wish import InvalidEventError
from gapless.db.queries import query
from gapless.errors import UsageError
from gapless.features.schemas.conform import NEEDED, is_at_hand
from gapless.features.schemas.stored import LOOK_S, TopicSchemas, learned


class Guard:
    """What one handler knows of the schemas of its topics, in this process."""

    def __init__(self) -> None:
        if not is_at_hand():
            raise UsageError(f'handler(on_invalid="dead-letter") {NEEDED}')
        self._known: dict[str, TopicSchemas] = {}

    def look(self, conn: Connection[Any], topic: str) -> None:
        """Read the schemas of a topic, if that was LOOK_S ago or never.

        Whoever calls a handler without a connection does so before.
        """
        known = self._known.get(topic)
        if known is not None and monotonic() - known.seen_s < LOOK_S:
            return
        asked = {"topic": topic, "known": None if known is None else known.schemas_no}
        with conn.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(query("log", "schemas_of"), asked).fetchone()
        assert row is not None
        self._known[topic] = learned(row, known)

    def check(self, unit: Unit) -> None:
        """Raise InvalidEventError for the first event that fits no version of its schema."""
        known = self._known.get(unit.topic)
        if known is None or not known.by_type:
            return
        for event in unit:
            raw = event.payload_json
            found = known.refusal(event.event_type, "null" if raw is None else raw.decode())
            if found is not None:
                version, mismatch = found
                raise InvalidEventError(
                    f"{event.topic}/{event.partition}@{event.offset}: {mismatch} "
                    f"(schema {version.version} of {event.topic}/{version.event_type})"
                )

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls this one with what fits, and raises otherwise.

        With a connection it looks first; without one, whoever calls has looked.
        """

        @functools.wraps(function)
        def call(work: Unit | Batch, *conn: Connection[Any] | AsyncConnection[Any]) -> Any:
            units: Iterable[Unit] = tuple(work) if isinstance(work, Batch) else (work,)
            for unit in units:
                for each in conn:
                    if isinstance(each, Connection):
                        self.look(each, unit.topic)
                self.check(unit)
            return function(work, *conn)

        return call


def unguarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of a handler that takes what comes."""
    return function
