"""Facts about topics that publishers need, read again after LOOK_S: rules of events, a pooler.

They are cached by database, so that one look serves all connections to it. The rules are read by
the feature that has them (`Feature.publishing`). Without it, a topic with rules takes no event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Protocol

from gapless import feature
from gapless.errors import UncheckedError
from gapless.log.borrowed import PSYCOPG
from gapless.log.given import Events
from gapless.log.script import Row, Script

LOOK_S = 5.0
_KNOWN_MAX = 10_000  # topics
_NO_RULES = (None, "[]")


class Rules(Protocol):
    """The rules that the events of a topic have to follow."""

    def checked(self, topic: str, events: Events) -> Events:
        """Return the events, each checked; many are checked as they go. Raises PublishError."""

    def refusal(self, topic: str, event_type: str | None, text: str) -> str | None:
        """Return the reason to keep a payload from a handler that asks for this; or None."""


@dataclass(frozen=True, slots=True)
class RulesReader:
    """A reader of rules, a JSON text. lacks: a requirement that is not installed; None: none."""

    read: Callable[[str], Rules]
    lacks: Callable[[], str | None]


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """The facts of a topic. seen_s: when they were read. rules: None: it has none.

    prepare: whether psycopg prepares a statement; None: psycopg decides; False: behind a pooler,
    where the next call may not meet the session in which it was prepared.
    """

    rules_no: int
    rules: Rules | None
    seen_s: float
    prepare: bool | None = None

    def checked(self, topic: str, events: Events) -> Events:
        """Return the events as they are to be stored. Raises PublishError; for many, as they go."""
        return events if self.rules is None else self.rules.checked(topic, events)


_known: dict[tuple[object, ...], KnownTopic] = {}


def known_topic(conn: Any, topic: str) -> Script[KnownTopic]:
    """Return the facts of a topic; ask for them if it is time. conn: a driver's."""
    place = _place_of(conn, topic)
    known = _known.get(place)
    if known is not None and monotonic() - known.seen_s < LOOK_S:
        return known
    rules_no = None if known is None else known.rules_no
    row = yield "rules_of", {"topic": topic, "known": rules_no}, False
    if len(_known) >= _KNOWN_MAX:
        _known.clear()
    known = _known[place] = _learned(topic, row, known, _pid_of(conn))
    return known


def rules_reader() -> RulesReader | None:
    """Return the rules reader of the feature that has one."""
    make = next(feature.given(lambda each: each.publishing), None)
    return make and make()


def _learned(topic: str, row: Row, before: KnownTopic | None, pid: int) -> KnownTopic:
    """Return the facts in a row; rules that did not change are those of `before`."""
    rules_no, text, backend_pid = row
    prepare = None if backend_pid == pid else False
    if text is None and before is not None:
        return replace(before, seen_s=monotonic(), prepare=prepare)
    return KnownTopic(rules_no or 0, _read(topic, text), monotonic(), prepare)


def _read(topic: str, text: str | None) -> Rules | None:
    if text in _NO_RULES:
        return None
    reader = rules_reader()
    if reader is None:
        raise UncheckedError(
            f"topic {topic} has schemas, and gapless/features has nothing that reads them"
        )
    return reader.read(text)


def _place_of(conn: Any, topic: str) -> tuple[object, ...]:
    """Return an identity of a topic in its database; conn: of psycopg, psycopg2 or asyncpg."""
    if isinstance(conn, PSYCOPG):
        pgconn = conn.pgconn
        return (pgconn.host, pgconn.port, pgconn.db, topic)
    if hasattr(conn, "get_server_pid"):  # asyncpg's
        return (conn.get_server_pid(), topic)
    return (conn.info.host, conn.info.port, conn.info.dbname, topic)


def _pid_of(conn: Any) -> int:
    """Return the server pid that a connection reports; behind a pooler it is invented."""
    is_asyncpg = hasattr(conn, "get_server_pid")
    pid: int = conn.get_server_pid() if is_asyncpg else conn.info.backend_pid
    return pid
