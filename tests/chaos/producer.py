"""A producer that writes down what it does, and retries by its business key until it knows.

One order is one database transaction: the order's key, a business row, and its events (I1, I2).
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg import Connection

from chaos.history import Begun, Invoke, Outcome, Sent, Writer, digest
from gapless.errors import GaplessError
from gapless.log.event import NewEvent
from gapless.log.publish import publish

RETRY_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An event to be: its key, and what its payload tells the handler besides its tag."""

    key: str
    topic: str = "t"
    poison: bool = False
    does: str = ""
    undone: bool = False
    transaction_id: str | None = None
    payload: tuple[tuple[str, object], ...] = ()


class Producer:
    """Publishes orders over connections of its own, made by `connect`."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], Connection[Any]],
        writer: Writer,
        *,
        by_key: bool = True,
        make_id: Callable[[], UUID] = uuid4,
    ) -> None:
        self._name = name
        self._connect = connect
        self._writer = writer
        self._by_key = by_key
        self._make_id = make_id
        self._conn: Connection[Any] | None = None

    def order(self, key: str, drafts: Iterable[Draft], *, patience_s: float = 30.0) -> str:
        """Publish an order, again and again until its fate is known; return "ok" or "already"."""
        drafts = list(drafts)
        give_up = time.monotonic() + patience_s
        while (ended := self.attempt(key, drafts)) not in ("ok", "already"):
            if time.monotonic() > give_up:
                raise TimeoutError(f"order {key} could not be published: {ended}")
            time.sleep(RETRY_S)
        return ended

    def attempt(self, key: str, drafts: Iterable[Draft]) -> str:
        """Try once; return how it ended, as in Outcome."""
        id_ = str(self._make_id())
        made = [self._event(id_, number, draft) for number, draft in enumerate(drafts)]
        self._writer.write(
            Invoke(
                attempt=id_, producer=self._name, order=key, events=tuple(sent for sent, _ in made)
            )
        )
        ended = self._transact(id_, key, made)
        self._writer.write(Outcome(attempt=id_, ended=ended))
        return ended

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
        self._conn = None

    def _transact(self, id_: str, key: str, made: list[tuple[Sent, NewEvent]]) -> Any:
        committing = False
        try:
            conn = self._conn = self._conn or self._connect()
            conn.autocommit = True
            conn.execute("begin")
            row = conn.execute("select pg_current_xact_id()::text").fetchone()
            assert row is not None
            self._writer.write(Begun(attempt=id_, xid=row[0]))
            if self._by_key and not self._first(conn, id_, key):
                conn.execute("rollback")
                return "already"
            conn.execute(
                "insert into chaos.business (attempt, producer, order_key, events)"
                " values (%s, %s, %s, %s)",
                [id_, self._name, key, len(made)],
            )
            self._publish(conn, made)
            committing = True
            conn.execute("commit")
        except (psycopg.Error, GaplessError, OSError) as error:
            return self._failed(error, committing=committing)
        return "ok"

    def _first(self, conn: Connection[Any], id_: str, key: str) -> bool:
        done = conn.execute(
            "insert into chaos.order_done values (%s, %s) on conflict do nothing", [key, id_]
        )
        return done.rowcount == 1

    def _publish(self, conn: Connection[Any], made: list[tuple[Sent, NewEvent]]) -> None:
        """Publish neighbours of one topic together; those to be undone under a savepoint."""
        start = 0
        for at in range(1, len(made) + 1):
            one, next_ = made[at - 1][0], made[at][0] if at < len(made) else None
            if next_ is not None and (one.topic, one.undone) == (next_.topic, next_.undone):
                continue
            events = [event for _, event in made[start:at]]
            start = at
            if one.undone:
                conn.execute("savepoint undone")
            publish(conn, one.topic, events)
            if one.undone:
                conn.execute("rollback to savepoint undone")

    def _failed(self, error: Exception, *, committing: bool) -> str:
        """A COMMIT that the server refused failed; one without an answer may have happened."""
        conn = self._conn
        lost = conn is None or conn.broken or conn.closed
        if conn is not None:
            with contextlib.suppress(psycopg.Error):
                conn.close()
        self._conn = None
        refused = isinstance(error, psycopg.Error) and error.sqlstate is not None and not lost
        return "info" if committing and not refused else "fail"

    def _event(self, id_: str, number: int, draft: Draft) -> tuple[Sent, NewEvent]:
        does = {"do": draft.does} if draft.does else {}
        text = json.dumps({"poison": draft.poison, **does, **dict(draft.payload)})
        headers = {"n": number, "trace": {"é": [None, 1.5, "\u2603"]}}
        host_id, user_id = f"host {number % 3}", f"user {self._name}"
        sent = Sent(
            tag=f"{id_}/{number}",
            topic=draft.topic,
            key=draft.key,
            headers=json.dumps(headers),
            host_id=host_id,
            user_id=user_id,
            digest=digest(text),
            poison=draft.poison,
            does=draft.does,
            undone=draft.undone,
            transaction_id=draft.transaction_id,
        )
        event = NewEvent(
            payload=text.encode(),
            key=draft.key,
            event_type=sent.tag,
            headers=headers,
            host_id=host_id,
            user_id=user_id,
            transaction_id=draft.transaction_id,
        )
        return sent, event
