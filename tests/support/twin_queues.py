"""Queue groups among twins: the notes on each of their partitions, and functions to write them."""

from collections.abc import Set as AbstractSet
from itertools import product
from typing import Any

from psycopg import sql

from support.twins import QUEUES, SEEKS, SEEKS_NO_MORE, TOPICS, Twins

Place = tuple[str, str, int]
Notes = list[tuple[int, int, str]]  # first and last offset, and the state
DONE, HELD, DUE = "done", "held", "due"
HERE: Place = ("sender", "orders", 1)
PLACES: list[Place] = list(product(QUEUES, TOPICS, range(3)))
ELSEWHERE = [place for place in PLACES if place != HERE]
NOTE = (
    "insert into gapless.queue_range (lease_no, first_offset, last_offset, tries, deadline, token, holder, since_ts)"
    " values (%(lease)s, %(first)s, %(last)s, %(tries)s,"
    " case %(state)s when 'held' then timestamptz '2199-01-01' when 'due' then '2001-01-01' end,"
    " case %(state)s when 'held' then gen_random_uuid() end, %(holder)s, '2001-01-01')"
)
NOTED = (
    "select first_offset, last_offset, case when deadline is null then 'done'"
    " when deadline > clock_timestamp() then 'held' else 'due' end, tries, holder"
    " from gapless.queue_range where lease_no = %s order by 1"
)
MORE_SEGMENTS = (
    "insert into gapless.log_segment select (jsonb_populate_record(s, jsonb_build_object("
    "'base_offset', s.base_offset + n, 'last_offset', s.last_offset + n))).*"
    " from gapless.log_segment s, unnest(%s::bigint[]) n"
    " where s.base_offset = 7 and (s.topic_id, s.partition_id) {} (%s, 1)"
)
Range = tuple[int, int, str, int, str | None]


def note(
    twins: Twins, place: Place, notes: Notes, tries: int = 1, holder: str | None = "who"
) -> None:
    """Note these ranges of a partition."""
    for first, last, state in notes:
        twins.conn.execute(
            NOTE,
            {
                "lease": twins.leases[place], "first": first, "last": last, "state": state,
                "tries": tries, "holder": holder,
            },
        )  # fmt: skip


def noted(twins: Twins, place: Place = HERE) -> list[Range]:
    """Return the notes: of each range first and last offset, state, tries, holder."""
    return twins.conn.execute(NOTED, [twins.leases[place]]).fetchall()


def put(twins: Twins, place: Place, next_offset: int) -> None:
    """Set the floor, in both tables that have it."""
    group, topic, partition = place
    twins.conn.execute(SEEKS)
    twins.conn.execute(
        "update gapless.queue_floor set next_offset = %s where lease_no = %s",
        [next_offset, twins.leases[place]],
    )
    twins.conn.execute(
        "update gapless.consumer_offsets set next_offset = %s"
        " where group_id = %s and topic_id = %s and partition_id = %s",
        [next_offset, group, twins.topic_ids[topic], partition],
    )
    twins.conn.execute(SEEKS_NO_MORE)


def letter(
    twins: Twins, place: Place, first: int, last: int | None = None, **columns: object
) -> None:
    """Set a unit aside: it has failed twice and waits, due, unless columns give other values."""
    group, topic, partition = place
    twins.conn.execute(
        "select gapless.set_aside(%s, %s, %s, %s, array(select message_id from gapless.read(%s, %s, %s, %s)),"
        " 'waiting', 'why', 'trace', 'ValueError', '22000', _attempts => 2, _worker => 'who', _retry_after => '-9 s')",
        [group, twins.topic_ids[topic], partition, first, topic, partition, first, last or first],
    )
    if columns.get("state", "waiting") != "waiting":
        columns.setdefault("next_attempt_ts", None)
    if columns.get("state") == "discarded":
        columns |= {"discarded_by": "me", "discard_reason": "old"}
    if columns:
        names = [sql.SQL("{} = %s").format(sql.Identifier(name)) for name in columns]
        twins.conn.execute(
            sql.SQL(
                "update gapless.dead_letter set {} where group_id = %s and topic_id = %s and partition_id = %s"
                " and first_offset = %s"
            ).format(sql.SQL(", ").join(names)),
            [*columns.values(), group, twins.topic_ids[topic], partition, first],
        )


def letters(twins: Twins, place: Place, columns: str = "first_offset, state") -> list[Any]:
    """Return the units of a partition that are set aside, in offset order."""
    group, topic, partition = place
    return twins.conn.execute(
        f"select {columns} from gapless.dead_letter"
        " where group_id = %s and topic_id = %s and partition_id = %s order by first_offset",
        [group, twins.topic_ids[topic], partition],
    ).fetchall()


def lose(
    twins: Twins,
    events: AbstractSet[int] = frozenset(),
    segments: AbstractSet[int] = frozenset(),
    start: int = 1,
) -> None:
    """Delete events and segments of partition 1 of orders, and all before start, as retention does."""
    topic_id = twins.topic_ids["orders"]
    twins.conn.execute(
        "delete from gapless.outbox_message_t o using gapless.log_segment s, unnest(%s::bigint[]) lost"
        " where s.topic_id = %s and s.partition_id = 1 and o.id = s.message_ids[lost - s.base_offset + 1]",
        [list(events), topic_id],
    )
    twins.conn.execute(
        "delete from gapless.log_segment where topic_id = %s and partition_id = 1 and base_offset = any (%s)",
        [topic_id, list(segments)],
    )
    if start > 1:
        twins.conn.execute(
            "insert into gapless.log_start (topic_id, partition_id, first_offset, newest_ts) values (%s, 1, %s, now())",
            [topic_id, start],
        )


def lengthen(twins: Twins) -> None:
    """Give all other partitions segments that partition 1 of orders has not: at 2, at 5, and after its end."""
    topic_id = twins.topic_ids["orders"]
    twins.conn.execute(MORE_SEGMENTS.format("<>"), [[-5, -2, 4, 6], topic_id])


def go_on(twins: Twins) -> None:
    """Give partition 1 of orders two more segments: 9 to 10, 11 to 12."""
    twins.conn.execute(MORE_SEGMENTS.format("="), [[2, 4], twins.topic_ids["orders"]])


def locks(twins: Twins) -> set[tuple[int, int, str]]:
    """Return the advisory locks of two keys that the session has: class, key, mode."""
    found = twins.conn.execute(
        "select classid::int, objid::int, mode from pg_locks"
        " where locktype = 'advisory' and objsubid = 2 and granted and pid = pg_backend_pid()"
    )
    return set(found.fetchall())


def block_lock(twins: Twins, block_no: int, place: Place = HERE) -> tuple[int, int, str]:
    """Return the lock of a block of a partition, in the form of locks()."""
    key = twins.value("select gapless.block_key(%s, %s)", twins.leases[place], block_no)
    return (7427006, key, "ExclusiveLock")


def spread(twins: Twins) -> Twins:
    """Give each queue another position, and pause a part of it."""
    for n, place in enumerate([*ELSEWHERE, HERE], 1):
        put(twins, place, n % 8 + 1)
    twins.conn.execute(
        "select gapless.pause('billing', 'orders', 1), gapless.pause('sender', 'other', 2),"
        " gapless.pause('sender', 'orders', 0)"
    )
    return twins
