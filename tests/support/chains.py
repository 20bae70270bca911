"""Chains of transactions among twins, written as producers and handlers write them, and positions of groups.

Most tests ask for the first chain; the others are like it. Offsets follow those of twins: from 9 on, but in the
first partition of orders from 10 on.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import dict_row

from gapless.db.connect import connect
from support.letters import Letters, Row
from support.twins import Twins

FIRST = UUID("10000000-0000-4000-8000-000000000001")
SECOND = UUID("20000000-0000-4000-8000-000000000002")
THIRD = UUID("40000000-0000-4000-8000-000000000004")
NOBODY = UUID("30000000-0000-4000-8000-000000000003")
INSERT = (
    "insert into gapless.outbox_message_t (topic_id, key, event_type, payload, transaction_id, cause, correlation)"
    " values (%s, %s, %s, '{}', %s, %s, %s) returning id"
)
SEEK = (
    "select set_config('gapless.seeking', pg_current_xact_id()::text, true);"
    " update gapless.consumer_offsets set next_offset = {} where {};"
    " select set_config('gapless.seeking', '', true)"
)
# Name: topic, partition, events, cause, correlation; each inner list is published in one transaction.
UNITS: list[tuple[UUID | None, list[tuple[str, str, int, list[str], str | None, UUID | None]]]] = [
    (FIRST, [
        ("a", "orders", 1, ["x", "y"], None, None), ("b", "orders", 2, ["x"], None, None),
        ("c", "other", 1, ["x"], None, None),
    ]),
    (None, [("d", "other", 0, ["y", "x"], "billing/orders/1@9", FIRST)]),
    (None, [("e", "orders", 0, ["z"], "mail/other/0@9", FIRST)]),
    (None, [("f", "other", 2, ["z"], "mail/orders/2@9", FIRST)]),
    (SECOND, [("g", "orders", 1, ["x"], None, None)]),
    (None, [("h", "other", 0, ["x"], "billing/orders/1@11", SECOND)]),
    (FIRST, [("l", "orders", 1, ["w"], None, None)]),
    (None, [
        ("i", "orders", 1, ["x"], None, None), ("m", "other", 2, ["x"], "billing/orders/1@11", SECOND),
    ]),
    (None, [("j", "other", 1, ["x"], "billing/orders/1@13", None)]),
    (None, [("k", "orders", 2, ["x"], "billing/orders/1@11", SECOND)]),
    (THIRD, [("p", "orders", 0, ["x"], None, None)]),
    (None, [
        ("q", "other", 1, ["x"], "mail/orders/0@11", THIRD), ("r", "other", 1, ["x"], "sender/orders/0@11", THIRD),
        ("s", "other", 1, ["x"], "mail/orders/0@11", THIRD),
    ]),
]  # fmt: skip
PLACES = {
    "a": ("orders", 1, 9, 10), "b": ("orders", 2, 9, 9), "c": ("other", 1, 9, 9), "d": ("other", 0, 9, 10),
    "e": ("orders", 0, 10, 10), "f": ("other", 2, 9, 9), "g": ("orders", 1, 11, 11), "h": ("other", 0, 11, 11),
    "l": ("orders", 1, 12, 12), "i": ("orders", 1, 13, 13), "j": ("other", 1, 10, 10),
    "m": ("other", 2, 10, 10), "k": ("orders", 2, 10, 10), "p": ("orders", 0, 11, 11), "q": ("other", 1, 11, 11),
    "r": ("other", 1, 12, 12), "s": ("other", 1, 13, 13),
}  # fmt: skip
CAUSES = {
    unit[0]: (unit[4], transaction_id, unit[3]) for transaction_id, units in UNITS for unit in units
}
PARENTS = {
    "d": "a",
    "e": "d",
    "f": "b",
    "h": "g",
    "j": "i",
    "m": "g",
    "k": "g",
    "q": "p",
    "r": "p",
    "s": "p",
}
FIRSTS, SECONDS, THIRDS, UNNAMED = "abcdefl", "ghmk", "pqrs", "ij"  # the units of each chain
Place = tuple[str, int, int, int]


def cause_id(cause: str) -> UUID:
    """Return the transaction_id of events published because of this."""
    digits = list(hashlib.sha256(cause.encode()).hexdigest()[:32])
    digits[12], digits[16] = "8", "8"
    return UUID("".join(digits))


class Chains(Letters):
    """Three chains; and i, of a transaction without a name, like k, with j as its effect."""

    def __init__(self, twins: Twins, other: Connection[Any]) -> None:
        super().__init__(twins)
        self.other = other
        self.ids: dict[str, list[int]] = {}
        self.unnamed: dict[str, UUID] = {}

    def publish_all(self) -> None:
        for transaction_id, units in UNITS:
            with self.conn.transaction():
                for name, topic, partition, types, cause, correlation in units:
                    of = correlation or (self.unnamed["i"] if name == "j" else None)
                    self.publish(
                        name, topic, partition, types, cause, of, transaction_id=transaction_id
                    )
                    if name in "ik":
                        self.unnamed[name] = self.own()
            self.sequence()

    def publish(
        self,
        name: str,
        topic: str,
        partition: int,
        types: Sequence[str],
        cause: str | None,
        correlation: UUID | None,
        *,
        transaction_id: UUID | None = None,
    ) -> None:
        key = self.twins._key(partition)
        if cause is not None and transaction_id is None and name != "k":
            transaction_id = cause_id(cause)
        for event_type in types:
            params = [self.words[topic], key, event_type, transaction_id, cause, correlation]
            ((made,),) = self.conn.execute(INSERT, params).fetchall()
            self.ids.setdefault(name, []).append(made)

    def publish_late(
        self, topic: str, partition: int, cause: str | None = None, *, of: UUID | None
    ) -> None:
        """Publish one more in the open transaction: of this chain, or named so. It has no offset yet."""
        correlation, named = (of, None) if cause else (None, of)
        self.publish("late", topic, partition, ["late"], cause, correlation, transaction_id=named)
        self.other.execute("select pg_current_xact_id()")  # a later one has ended

    def sequence(self) -> None:
        self.twins._sequence()

    def derived(self, xid: int, timeline: int = 0) -> UUID:
        """Return the transaction_id of a transaction that did not name its own."""
        return UUID(f"{timeline:08x}000080008{xid:015x}")

    def own(self) -> UUID:
        return self.derived(int(self.value("select pg_current_xact_id()::text")))

    def seek(self, next_offset: int, where: str = "true") -> None:
        """Move groups there; in the condition {orders} and {other} stand for their ids."""
        self.run(SEEK.format(next_offset, where))

    def aside(self, group: str, place: Place, state: str, transaction_id: UUID = FIRST) -> None:
        """Set a unit of a group aside, and its events."""
        topic, partition, first, last = place
        params: dict[str, Any] = {
            "group": group, "topic": self.words[topic], "partition": partition, "first": first, "last": last,
            "state": state, "id": transaction_id,
        }  # fmt: skip
        self.conn.execute(
            "insert into gapless.dead_letter (group_id, topic_id, partition_id, first_offset, last_offset, events,"
            " transaction_id, state, attempts, next_attempt_ts, reason, exception, discard_reason)"
            " values (%(group)s, %(topic)s, %(partition)s, %(first)s, %(last)s, %(last)s - %(first)s + 1, %(id)s,"
            " %(state)s, 3, case %(state)s when 'waiting' then now() end, 'why', '',"
            " case %(state)s when 'discarded' then 'of no use' end)",
            params,
        )
        self.conn.execute(
            "insert into gapless.dead_letter_event (group_id, topic_id, partition_id, c_offset, first_offset,"
            " message_id, transaction_id, created_ts)"
            " select %(group)s, %(topic)s, %(partition)s, o, %(first)s, 1, %(id)s, now()"
            " from generate_series(%(first)s::bigint, %(last)s) o",
            params,
        )

    def drop(
        self, group: str, name: str, correlation: UUID | None = None, cause: str | None = None
    ) -> None:
        """Make the events of a unit dead letters of a group, and delete them from the log."""
        topic, partition, first, _ = PLACES[name]
        self.aside(group, PLACES[name], "dead", self.told(name, FIRST)["published_as"])
        self.conn.execute(
            "update gapless.dead_letter_event set message_id = (%s::bigint[])[c_offset - %s + 1],"
            " correlation = %s, cause = %s, event_type = 'kept', key = null, host_id = 'host'"
            " where group_id = %s and topic_id = %s and partition_id = %s and first_offset = %s",
            [self.ids[name], first, correlation, cause, group, self.words[topic], partition, first],
        )
        delete = "delete from gapless.outbox_message_t where id = any (%s)"
        self.conn.execute(delete, [self.ids[name]])

    def query(self, statement: str) -> list[Row]:
        with self.conn.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(statement).fetchall()

    def told(self, name: str, asked: UUID) -> Row:
        """Return the row of chain_units() for a unit, without the time of publishing."""
        topic, partition, first, last = PLACES[name]
        cause, named, types = CAUSES[name]
        published_as = named or self.unnamed.get(name) or cause_id(cause or "")
        group, at_topic, at_partition, at_offset = None, None, None, None
        if cause:
            group, at_topic, place = cause.split("/")
            at_partition, at_offset = (int(number) for number in place.split("@"))
        parent = PARENTS.get(name)
        return {
            "first_id": self.ids[name][0], "parent_id": self.ids[parent][0] if parent else None,
            "is_asked": published_as == asked, "cause": cause, "cause_group": group,
            "cause_topic_id": self.words[at_topic] if at_topic else None,
            "cause_partition_id": at_partition, "cause_offset": at_offset, "topic_id": self.words[topic],
            "partition_id": partition, "first_offset": first, "last_offset": last,
            "events": last - first + 1, "event_types": sorted(types),
            "keys": [self.twins._key(partition)],
            "published_as": published_as, "is_dropped": False,
        }  # fmt: skip


@contextmanager
def chained(dsn: str) -> Iterator[Chains]:
    """Yield both chains, a group of topic other alone, and a topic without effects."""
    with connect(dsn, role="test") as conn, connect(dsn, role="other") as other:
        twins = Twins(conn)
        conn.execute(
            "select gapless.create_group('solo', 'other'), gapless.create_topic('third', 5)"
        )
        made = Chains(twins, other)
        made.publish_all()
        yield made
