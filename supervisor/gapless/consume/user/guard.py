"""Keep events that fit no version of their schema from a handler that says on_invalid.

The rules are read through the session that handles, again after LOOK_S. The whole unit of such an
event becomes a dead letter (I5).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from psycopg import AsyncConnection, Connection

from gapless.consume.batch import Batch
from gapless.consume.unit import Unit
from gapless.consume.verdict.wish import InvalidEventError
from gapless.errors import UsageError
from gapless.log.known import KnownTopic, known_topic, rules_reader
from gapless.log.play import play


class Guard:
    """The rules of a handler's topics that are known in this process."""

    def __init__(self) -> None:
        reader = rules_reader()
        lacks = "needs the feature of schemas" if reader is None else reader.lacks()
        if lacks is not None:
            raise UsageError(f'handler(on_invalid="dead-letter") {lacks}')
        self._known: dict[str, KnownTopic] = {}

    def look(self, conn: Connection[Any], topic: str) -> None:
        """Read the rules of a topic, if it is time.

        A caller of a handler without a connection has to do this before.
        """
        self._known[topic] = play(conn, functools.partial(known_topic, topic=topic))

    def check(self, unit: Unit) -> None:
        """Raise InvalidEventError for the first event that its topic's rules refuse."""
        known = self._known.get(unit.topic)
        if known is None or known.rules is None:
            return
        for event in unit:
            raw = event.payload_json
            text = "null" if raw is None else raw.decode()
            reason = known.rules.refusal(event.topic, event.event_type, text)
            if reason is not None:
                place = f"{event.topic}/{event.partition}@{event.offset}"
                raise InvalidEventError(f"{place}: {reason}")

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls this one with units that fit, and raises for others.

        With a connection it reads the rules first; without one, the caller has done so.
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
    """Return the function of a handler that takes all events."""
    return function
