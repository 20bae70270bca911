"""A producer that writes down what it does, and retries by its business key until it knows.

One order is one database transaction: the order's key, a business row, and its events (I1, I2).
"""

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg import Connection

from chaos.history import Begun, Ended, Invoke, Outcome, Sent, Writer, digest
from gapless.errors import GaplessError
from gapless.log.event import NewEvent
from gapless.log.publish import publish

RETRY_S = 0.05
_BUSINESS = (
    "insert into chaos.business (attempt, producer, order_key, events) values (%s, %s, %s, %s)"
)
_INSERT = """
insert into gapless.outbox_message_t (
  topic_id, payload, key, event_type, transaction_id, headers, host_id, user_id
)
select gapless.topic_id(%s), * from unnest(
  %s::json[], %s::text[], %s::text[], %s::uuid[], %s::jsonb[], %s::text[], %s::text[]
)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An event to be: its key, and what its payload tells the handler besides its tag.

    savepoint: neighbours with the same name are in it. plain: by INSERT instead of publish().
    headers (JSON): without them, headers, host_id and user_id are the producer's own.
    """

    key: str
    topic: str = "t"
    poison: bool = False
    does: str = ""
    undone: bool = False
    savepoint: str | None = None
    plain: bool = False
    transaction_id: str | None = None
    payload: tuple[tuple[str, object], ...] = ()
    headers: str | None = None
    host_id: str | None = None
    user_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """An event of an attempt, with its payload (JSON)."""

    draft: Draft
    sent: Sent
    text: str

    @property
    def part(self) -> tuple[str, str | None, bool]:
        """What the events share that are published together."""
        savepoint = self.draft.savepoint or ("undone" if self.draft.undone else None)
        return self.draft.topic, savepoint, self.draft.plain


class Producer:
    """Publishes orders over connections of its own, made by `connect`."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], Connection[Any]],
        writer: Writer,
        *,
        make_id: Callable[[], UUID] = uuid4,
    ) -> None:
        self._name = name
        self._connect = connect
        self._writer = writer
        self._make_id = make_id
        self._conn: Connection[Any] | None = None

    def order(
        self,
        key: str,
        drafts: Sequence[Draft],
        *,
        think_s: float = 0.0,
        given_up: bool = False,
        patience_s: float = 30.0,
    ) -> Ended:
        """Publish an order, again and again until its fate is known; return how it ended.

        think_s: before COMMIT; given_up: it is rolled back instead.
        """
        give_up = time.monotonic() + patience_s
        while True:
            ended = self._attempt(key, drafts, think_s, given_up=given_up)
            if ended in ("ok", "already") or (ended == "fail" and given_up):
                return ended
            if time.monotonic() > give_up:
                raise TimeoutError(f"order {key} could not be published: {ended}")
            time.sleep(RETRY_S)

    def _attempt(
        self, key: str, drafts: Sequence[Draft], think_s: float, *, given_up: bool
    ) -> Ended:
        id_ = str(self._make_id())
        made = [self._event(id_, number, draft) for number, draft in enumerate(drafts)]
        events = tuple(each.sent for each in made)
        self._writer.write(Invoke(attempt=id_, producer=self._name, order=key, events=events))
        ended: Ended = "fail"
        committing = False
        try:
            conn = self._conn = self._conn or self._connect()
            conn.autocommit = True
            if not self._begin(conn, id_, key, made):
                ended = "already"
            else:
                time.sleep(think_s)
                committing = not given_up
                conn.execute("commit" if committing else "rollback")
                ended = "ok" if committing else "fail"
        except (psycopg.Error, GaplessError, OSError) as error:
            ended = self._failed(error, committing=committing)
        self._writer.write(Outcome(attempt=id_, ended=ended))
        return ended

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
        self._conn = None

    def _begin(self, conn: Connection[Any], id_: str, key: str, made: list[Made]) -> bool:
        """Begin a transaction with all that an order has; False: it was published already."""
        conn.execute("begin")
        row = conn.execute("select pg_current_xact_id()::text").fetchone()
        assert row is not None
        self._writer.write(Begun(attempt=id_, xid=row[0]))
        if not self._first(conn, id_, key):
            conn.execute("rollback")
            return False
        kept = sum(not each.sent.undone for each in made)
        conn.execute(_BUSINESS, [id_, self._name, key, kept])
        for (topic, savepoint, plain), part in groupby(made, key=lambda each: each.part):
            events = list(part)
            if savepoint:
                conn.execute(f"savepoint {savepoint}")
            _insert(conn, topic, events) if plain else _publish(conn, topic, events)
            if savepoint:
                how = "rollback to" if events[0].sent.undone else "release"
                conn.execute(f"{how} {savepoint}")
        return True

    def _first(self, conn: Connection[Any], id_: str, key: str) -> bool:
        done = conn.execute(
            "insert into chaos.order_done values (%s, %s) on conflict do nothing", [key, id_]
        )
        return done.rowcount == 1

    def _failed(self, error: Exception, *, committing: bool) -> Ended:
        """A COMMIT that the server refused failed; one without an answer may have happened."""
        conn = self._conn
        lost = conn is None or conn.broken or conn.closed
        if conn is not None:
            with contextlib.suppress(psycopg.Error):
                conn.close()
        self._conn = None
        refused = isinstance(error, psycopg.Error) and error.sqlstate is not None and not lost
        return "info" if committing and not refused else "fail"

    def _event(self, id_: str, number: int, draft: Draft) -> Made:
        does = {"do": draft.does} if draft.does else {}
        text = json.dumps({"poison": draft.poison, **does, **dict(draft.payload)})
        headers = {"n": number, "trace": {"é": [None, 1.5, "\u2603"]}}
        sent = Sent(
            tag=f"{id_}/{number}",
            topic=draft.topic,
            key=draft.key,
            headers=draft.headers or json.dumps(headers),
            host_id=draft.host_id if draft.headers else f"host {number % 3}",
            user_id=draft.user_id if draft.headers else f"user {self._name}",
            digest=digest(text),
            poison=draft.poison,
            does=draft.does,
            undone=draft.undone,
            transaction_id=draft.transaction_id,
        )
        return Made(draft=draft, sent=sent, text=text)


def _publish(conn: Connection[Any], topic: str, made: list[Made]) -> None:
    events = [
        NewEvent(
            payload=each.text.encode(),
            key=each.sent.key,
            event_type=each.sent.tag,
            headers=json.loads(each.sent.headers),
            host_id=each.sent.host_id,
            user_id=each.sent.user_id,
            transaction_id=each.sent.transaction_id,
        )
        for each in made
    ]
    publish(conn, topic, events)


def _insert(conn: Connection[Any], topic: str, made: list[Made]) -> None:
    names = ("key", "tag", "transaction_id", "headers", "host_id", "user_id")
    columns = [[getattr(each.sent, name) for each in made] for name in names]
    conn.execute(_INSERT, [topic, [each.text for each in made], *columns])
