"""Programs of before, in SQL alone: producers, one who sequences, consumers that own their partition.

They call what was there at migration 0002, by position, and continue while the schema is upgraded
under them. What is handled is in public.effect, what was published in public.truth, each written
in the transaction of its event.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import Connection

PARTITIONS = 2
TABLES = """
create table public.truth (n bigserial, producer int, key text, event int);
create table public.effect (n bigserial, key text, event int, who text);
"""
_PUBLISH = "select gapless.publish('orders', to_json(%s::int), key => %s)"
_INSERT = (
    "insert into gapless.outbox_message_t (topic_id, key, payload)"
    " values (gapless.topic_id('orders'), %s, to_json(%s::int))"
)
_HAS_JOIN_GROUPS = (
    "select exists (select from pg_proc p where p.pronamespace = 'gapless'::regnamespace"
    " and p.proname = 'join_groups')"
)
_JOIN = (
    "select gapless.join_groups(%(member)s, gapless.next_member_no(), %(name)s, %(part)s + 1, 1,"
    " interval '1 hour', array['g'], array['orders'])"
)
_JOIN_OF_0002 = (
    "select gapless.join_group(%(member)s, gapless.next_member_no(), %(name)s, %(part)s + 1,"
    " interval '1 hour', array['g'], array['orders'])"
)
_HANDLE = (
    "insert into public.effect (key, event, who)"
    " select o.key, o.payload::text::int, 'old' from gapless.outbox_message_t o"
    " where o.id = any (%(ids)s) order by array_position(%(ids)s, o.id)"
)
# The end of one of ours, or of what it waited for: it begins again, as a program would.
_PASSING = (psycopg.errors.DeadlockDetected, psycopg.errors.LockNotAvailable)


class Clients:
    """What runs until it is told to stop; `failed` says why one did not."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.no_more_events = threading.Event()
        self.no_more_handling = threading.Event()
        self.failed: list[BaseException] = []
        self.begun_again: Counter[str] = Counter()
        works = [self._producer(number) for number in range(2)]
        works += [self._consumers, self._sequencer]
        self._threads = [threading.Thread(target=self._guarded, args=(each,)) for each in works]

    def start(self) -> None:
        for each in self._threads:
            each.start()

    def join(self) -> None:
        for event in (self.no_more_events, self.no_more_handling):
            event.set()
        for each in self._threads:
            each.join(120)
        assert not any(each.is_alive() for each in self._threads)

    def _guarded(self, work: Callable[[Connection[Any]], None]) -> None:
        try:
            with psycopg.connect(self._dsn, autocommit=True) as conn:
                work(conn)
        except Exception as error:  # noqa: BLE001 - the test tells it
            self.failed.append(error)

    def _again(self, what: str, act: Callable[[], object]) -> bool:
        try:
            act()
        except _PASSING:
            self.begun_again[what] += 1
            return False
        return True

    def _producer(self, number: int) -> Callable[[Connection[Any]], None]:
        chance = random.Random(number)

        def publish(conn: Connection[Any]) -> None:
            event = number
            while not self.no_more_events.wait(0.01):
                wanted = chance.randint(1, 4)
                is_kept = chance.random() > 0.1
                events = range(event, event + 2 * wanted, 2)

                def once(events: range = events, *, is_kept: bool = is_kept) -> None:
                    with conn.transaction(force_rollback=not is_kept):
                        for each in events:
                            key = f"{number}/{each % 5}"
                            if each % 3:
                                conn.execute(_PUBLISH, [each, key])
                            else:
                                conn.execute(_INSERT, [key, each])
                            conn.execute(
                                "insert into public.truth (producer, key, event)"
                                " values (%s, %s, %s)",
                                [number, key, each],
                            )

                if self._again("publish", once):
                    event += 2 * wanted

        return publish

    def _sequencer(self, conn: Connection[Any]) -> None:
        while not self.no_more_handling.wait(0.01):
            self._again("sequence", lambda: conn.execute("select gapless.sequence_events()"))

    def _consumers(self, conn: Connection[Any]) -> None:
        """Own all partitions, as a supervisor with one worker for all would, then let go."""
        owned = _own(conn)
        while not self.no_more_handling.wait(0.005):
            for where in owned:
                self._again("handle", lambda where=where: _handle(conn, where))
        for where in owned:
            conn.execute("select gapless.release('g', %(topic)s, %(part)s, %(token)s)", where)
        conn.execute("select gapless.leave_group(%(member)s)", owned[0])


def _own(conn: Connection[Any]) -> list[dict[str, Any]]:
    base = {"member": uuid4(), "name": "old", "part": PARTITIONS - 1}
    (is_known,) = _row(conn, _HAS_JOIN_GROUPS, {})
    conn.execute(_JOIN if is_known else _JOIN_OF_0002, base)
    (base["topic"],) = _row(conn, "select gapless.topic_id('orders')", {})
    conn.execute("select gapless.sync('g', %(topic)s)", base)
    owned = []
    for part in range(PARTITIONS):
        where = {**base, "part": part, "token": uuid4()}
        (where["epoch"],) = _row(
            conn,
            "select gapless.acquire('g', %(topic)s, %(part)s, %(member)s, %(token)s)",
            where,
        )
        conn.execute(
            "select gapless.install_fence('g', %(topic)s, %(part)s, %(epoch)s, %(token)s)", where
        )
        owned.append(where)
    return owned


def _handle(conn: Connection[Any], where: dict[str, Any]) -> None:
    """Claim at most 7 events, handle them, commit: one transaction."""
    with conn.transaction():
        found = conn.execute(
            "select outcome, first_offset, last_offset, claim_xid, base_offset, message_ids"
            " from gapless.claim('g', %(topic)s, %(part)s, %(epoch)s, %(token)s, 7)",
            where,
        ).fetchall()
        if found[0][0] == "idle":
            return
        assert {row[0] for row in found} == {"claimed"}, found
        ids = [
            each
            for _, first, last, _, base, members in found
            for offset, each in enumerate(members, start=base)
            if first <= offset <= last
        ]
        conn.execute(_HANDLE, {"ids": ids})
        assert _row(conn, "select gapless.finish_batch(%s)", [found[0][3]]) == (True,)


def _row(conn: Connection[Any], statement: str, params: Any) -> tuple[Any, ...]:
    row = conn.execute(statement.encode(), params).fetchone()
    assert row is not None
    return row


@contextmanager
def running(dsn: str) -> Iterator[Clients]:
    clients = Clients(dsn)
    clients.start()
    try:
        yield clients
    finally:
        clients.join()
