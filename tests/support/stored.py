"""Rows that a call of SQL has stored: events, waiting ones, keys; whole tables before and after it."""

from hashlib import sha256
from typing import Any, NamedTuple

from support.twins import Twins

EVENTS = (
    "select o.id, coalesce(t.name, o.topic_id::text), o.key, o.event_type, o.payload::text, o.headers, o.host_id,"
    " o.user_id, o.transaction_id::text, o.cause, o.correlation::text, o.xid::text"
    " from gapless.outbox_message_t o left join gapless.topic t using (topic_id) order by o.id"
)
WAITING = (
    "select s.scheduled_id, coalesce(t.name, s.topic_id::text), s.key, s.event_type, s.payload::text, s.headers,"
    " s.host_id, s.user_id, s.transaction_id::text, s.cause, s.correlation::text, s.xid::text, s.dedupe_key,"
    " extract(epoch from s.deliver_at - now())::int"
    " from gapless.scheduled s left join gapless.topic t using (topic_id) order by s.scheduled_id"
)
KEYS = (
    "select d.slot, coalesce(t.name, d.topic_id::text), d.dedupe_key, d.transaction_id::text, d.message_id, d.digest,"
    " round(extract(epoch from clock_timestamp() - d.published_ts) / 10)::int"
    " from gapless.dedupe d left join gapless.topic t using (topic_id) order by 1, 2, 3"
)
Key = tuple[int, str, str]


class Stored(NamedTuple):
    """The result of a call, the rows it added, each without its number, and all present keys.

    keys: by slot, topic and key the transaction_id, the message_id, the digest, the age in 10 s.
    """

    returned: list[tuple[Any, ...]]
    ids: list[int]
    events: list[tuple[Any, ...]]
    waiting_ids: list[int]
    waiting: list[tuple[Any, ...]]
    keys: dict[Key, tuple[Any, ...]]

    @property
    def nothing(self) -> bool:
        return not (self.ids or self.waiting_ids)


def call(twins: Twins, statement: str, params: Any = None) -> Stored:
    """Run a statement; check that it leaves existing events unchanged."""
    before = [twins.conn.execute(query).fetchall() for query in (EVENTS, WAITING)]
    returned = twins.conn.execute(statement, params).fetchall()
    xid = twins.value("select pg_current_xact_id()::text")
    added = []
    for query, was in zip((EVENTS, WAITING), before, strict=True):
        now = twins.conn.execute(query).fetchall()
        assert now[: len(was)] == was, "they are only added to"
        assert {row[11] for row in now[len(was) :]} <= {xid}
        added.append(now[len(was) :])
    events, waiting = added
    return Stored(
        returned,
        [row[0] for row in events],
        [row[1:11] for row in events],
        [row[0] for row in waiting],
        [(*row[1:11], *row[12:]) for row in waiting],
        {row[:3]: row[3:] for row in twins.conn.execute(KEYS)},
    )


def tell(twins: Twins, cause: str, correlation: str) -> None:
    """Set the cause and the correlation of events published from now on."""
    twins.value(
        "select (set_config('gapless.cause', %s, true), set_config('gapless.correlation', %s, true))::text",
        cause,
        correlation,
    )


def told(twins: Twins) -> tuple[str, str]:
    """Return the cause and the correlation that are set."""
    row = twins.conn.execute(
        "select coalesce(current_setting('gapless.cause', true), ''),"
        " coalesce(current_setting('gapless.correlation', true), '')"
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def cause_id(cause: str) -> str:
    """Return the transaction_id of a unit's events: a UUID of version 8 made of a digest."""
    digits = sha256(cause.encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


def own_id(twins: Twins) -> str:
    """Return this transaction's own transaction_id for its events, on the first timeline."""
    digits = f"{int(twins.value('select pg_current_xact_id()::text')):016x}"
    return f"00000000-0000-8000-8{digits[1:4]}-{digits[4:]}"
