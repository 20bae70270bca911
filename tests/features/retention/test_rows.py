"""What retention writes, deletes and says, row by row, of two topics of two partitions that are alike.

Of each topic and partition there are three units of two events in each of three chunks, and two groups
that have handled all. So a condition that is missing in some function of SQL shows: a row elsewhere
changes, or a reason is said that is none. Each test is taken back.
"""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.log.sequence import sequence
from support.chunks import next_chunk, small_chunks

CHUNKS = 3
UNITS = 3  # of two events, in each chunk, topic and partition
BEHIND = "group billing has yet to handle "
NOBODY = ", and no worker serves it"
FIRST_END = 2 * UNITS + 1  # the offset behind the first chunk
PUBLISH = (
    "insert into gapless.outbox_message_t (topic_id, key, payload)"
    " select t.topic_id, k.key, '1'"
    " from gapless.topic t, unnest(%s::text[]) k (key), generate_series(1, 2)"
)
GROUPS = "select gapless.create_group(g, t) from unnest('{other,orders}'::text[]) t, unnest('{billing,mail}'::text[]) g"
HANDLED = (
    "select set_config('gapless.seeking', pg_current_xact_id()::text, true);"
    " update gapless.consumer_offsets set next_offset = 1000"
)
OLD = "update gapless.topic set retention = '1 us'"
LETTERS = (
    "insert into gapless.dead_letter (group_id, topic_id, partition_id, first_offset, last_offset,"
    " events, transaction_id, state, attempts, reason, exception, next_attempt_ts, closed_ts,"
    " discarded_by, discard_reason)"
    " select c.group_id, c.topic_id, c.partition_id, s.n, s.n + 1, 2, gen_random_uuid(), s.state, 1,"
    " 'no', 'no', case s.state when 'waiting' then now() end, clock_timestamp() - s.age::interval,"
    " 'me', case s.state when 'discarded' then 'of no use' end"
    " from gapless.consumer_offsets c, (values (1, 'discarded', '50 min'), (3, 'discarded', '70 min'),"
    " (5, 'redriven', '80 min'), (7, 'dead', '90 min'), (9, 'waiting', '90 min'),"
    " (11, 'parked', '90 min')) s (n, state, age);"
    " insert into gapless.dead_letter_event (group_id, topic_id, partition_id, c_offset, first_offset,"
    " message_id, transaction_id, created_ts)"
    " select group_id, topic_id, partition_id, first_offset + n, first_offset, 1, transaction_id, now()"
    " from gapless.dead_letter, generate_series(0, 1) n"
)
PURGE = "select * from gapless.purge_history(60 * 60, 75 * 60)"


class Shelf:
    """The log, in one session; all that a test does is taken back."""

    def __init__(self, conn: Connection[Any]) -> None:
        self.conn = conn
        small_chunks(conn)
        self.ids = {
            name: int(self.value("select gapless.create_topic(%s, 2)", name))
            for name in ("other", "orders")
        }
        conn.execute(GROUPS)
        keys = [
            self.value(
                "select 'k' || n from generate_series(1, 99) n where gapless.partition_of('k' || n, 2) = %s limit 1",
                p,
            )
            for p in (0, 1)
        ]
        for _ in range(CHUNKS):
            for _ in range(UNITS):
                conn.execute(PUBLISH, [keys])
                sequence(conn)
            next_chunk(conn)
        conn.execute(PUBLISH, [keys])
        for _ in range(3):  # so that the floor comes there
            sequence(conn)
            conn.execute("select pg_current_xact_id()")
        assert self.value("select gapless.close_chunks()") == CHUNKS
        with conn.transaction():
            conn.execute(HANDLED)
            conn.execute(OLD)
        self.uptos = [
            row[0] for row in conn.execute("select distinct upto from gapless.chunk_end order by 1")
        ]
        assert len(self.uptos) == CHUNKS

    def value(self, statement: str, *params: object) -> Any:
        row = self.conn.execute(statement, params).fetchone()  # type: ignore[arg-type]
        return None if row is None else row[0]

    def run(self, statements: str) -> None:
        """Run statements in which {here} stands for what is true of partition 1 of orders."""
        here = f"topic_id = {self.ids['orders']} and partition_id = 1"
        words = {"here": here, "orders": self.ids["orders"], "other": self.ids["other"]}
        words |= {"upto": self.uptos[0], "end": FIRST_END}
        self.conn.execute(statements.format(**words))  # type: ignore[arg-type]

    def reasons(self, nth: int = 0) -> list[tuple[str, bool]]:
        """Why the nth chunk stays."""
        query = "select reason, is_behind from gapless.reasons_to_keep(%s) order by 1"
        return self.conn.execute(query, [self.uptos[nth]]).fetchall()

    def rows(self, table: str) -> set[str]:
        query = f"select to_jsonb(t)::text from {table} t"
        return {row[0] for row in self.conn.execute(query)}  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Shelf]:
    with connect(module_dsn, role="test") as conn:
        yield Shelf(conn)


@pytest.fixture
def world(shared: Shelf) -> Iterator[Shelf]:
    """The same at the begin of each test."""
    with shared.conn.transaction(force_rollback=True):
        yield shared


SEEK = "select set_config('gapless.seeking', pg_current_xact_id()::text, true);"
ONE_BEHIND = f"{SEEK} update gapless.consumer_offsets set next_offset = {{end}} - 2 where {{here}} and group_id = 'billing';"
ALL_BEHIND = f"{SEEK} update gapless.consumer_offsets set next_offset = 2 where topic_id = {{orders}} and group_id = 'billing';"
PIPELINE = (
    "insert into gapless.pipeline (name, target, error) values ('p', 'there', {error}), ('q', 'there', 'no');"
    "select gapless.create_group('pipeline.p', 'orders', 'latest');"
    + SEEK
    + "update gapless.consumer_offsets set next_offset = {{end}} - 2 where {{here}} and group_id = 'pipeline.p';"
)
STOPPED = (
    "select gapless.subscribe('billing', 'orders', 'a', condition => '$.n > 1'),"
    " gapless.subscribe('mail', 'orders', 'b', condition => '$.n > 1');"
    "delete from gapless.subscription_stop;"
    "insert into gapless.subscription_stop (subscription_id, partition_id, from_offset, reason)"
    " select subscription_id, 1, {from_}, 'raised' from gapless.subscription where name = 'a';"
)
STOP_REASON = (
    "subscription a of group billing was stopped, and its events of orders wait:"
    " gapless subscriptions resume billing/orders a"
)
ARCHIVE = "update gapless.topic set archive = 'p' where name = 'orders';"
ARCHIVE_REASON = (
    "topic orders waits for pipeline p, which has never run: gapless pipeline run p,"
    " or gapless topics alter orders --archive none"
)
COMPACTED = (
    "update gapless.topic set compacted = true where name = 'orders';"
    "insert into gapless.compaction (topic_id, partition_id, next_offset)"
    " select topic_id, p, {at} from gapless.topic, generate_series(0, 1) p {more};"
)
COMPACTION = "compaction of topic orders has yet to take in %s events: gapless run does, or select gapless.compact()"
UNROUTED = (
    "insert into gapless.unrouted (topic_id, events, first_id, last_id)"
    " values ({id}, 1, {first}, {first}), (78, 1, {{upto}} + 9, {{upto}} + 9);"
)
UNROUTED_REASON = (
    "it has events of %s that nobody made: gapless topics adopt, or gapless topics discard"
)

# What is so, and the reasons for which the first chunk stays then.
REASONS: dict[str, tuple[str, list[tuple[str, bool]]]] = {
    "nothing": ("", []),
    "no retention": (
        "update gapless.topic set retention = null where name = 'orders'",
        [("topic orders keeps its events forever: it has no retention", False)],
    ),
    "a topic of which it has nothing": (
        ("update gapless.topic set retention = null where name = 'orders';"
        "delete from gapless.chunk_end where upto = {upto} and topic_id = {orders}"),
        [],
    ),
    "one behind": (ONE_BEHIND, [(f"{BEHIND}2 events of orders{NOBODY}", True)]),
    "both behind": (ALL_BEHIND, [(f"{BEHIND}10 events of orders{NOBODY}", True)]),
    "at its end": (
        f"{SEEK} update gapless.consumer_offsets set next_offset = {{end}}", [],
    ),
    "no place yet": (
        "delete from gapless.consumer_offsets where {here} and group_id = 'billing'",
        [(f"{BEHIND}6 events of orders{NOBODY}", True)],
    ),
    "it has the latest": (
        (f"{ONE_BEHIND} update gapless.consumer_offsets set latest_upto = {{end}}"
        " where {here} and group_id = 'billing'"),
        [],
    ),
    "it has some of the latest": (
        (f"{ONE_BEHIND} update gapless.consumer_offsets set latest_upto = {{end}} - 1"
        " where {here} and group_id = 'billing'"),
        [(f"{BEHIND}1 events of orders{NOBODY}", True)],
    ),
    "a replay": (
        (f"{ONE_BEHIND} update gapless.consumer_group set is_scratch = true"
        " where group_id = 'billing' and topic_id = {orders}"),
        [],
    ),
    "overrun": (
        f"{ONE_BEHIND} update gapless.topic set overrun = '{{{{x,billing}}}}' where name = 'orders'", [],
    ),
    "another one overrun": (
        (f"{ONE_BEHIND} update gapless.topic set overrun = '{{{{mail}}}}' where name = 'orders';"
        "update gapless.topic set overrun = '{{billing}}' where name = 'other'"),
        [(f"{BEHIND}2 events of orders{NOBODY}", True)],
    ),
    "somebody works": (
        (f"{ONE_BEHIND} update gapless.lease set owner = gen_random_uuid()"
        " where topic_id = {orders} and group_id = 'billing' and partition_id = 0"),
        [(f"{BEHIND}2 events of orders", True)],
    ),
    "others work": (
        (f"{ONE_BEHIND} update gapless.lease set owner = gen_random_uuid()"
        " where topic_id <> {orders} or group_id <> 'billing'"),
        [(f"{BEHIND}2 events of orders{NOBODY}", True)],
    ),
    "a pipeline": (
        PIPELINE.format(error="null"),
        [(
            ("pipeline p has yet to read 2 events of orders, and does not run: gapless pipeline run p,"
            " or gapless pipeline remove p"), True,
        )],
    ),
    "one that failed": (
        PIPELINE.format(error="'why'"),
        [(
            ("pipeline p has yet to read 2 events of orders, and has failed: gapless pipeline run p,"
            " or gapless pipeline remove p"), True,
        )],
    ),
    "one that runs": (
        PIPELINE.format(error="'why'") + "select pg_advisory_xact_lock(7427005, hashtext('p'))",
        [("pipeline p has yet to read 2 events of orders", True)],
    ),
    "another one runs": (
        PIPELINE.format(error="null") + "select pg_advisory_xact_lock(7427005, hashtext('q')),"
        " pg_advisory_xact_lock(7427003, hashtext('p')), pg_advisory_xact_lock(31898560000000)",
        [(
            ("pipeline p has yet to read 2 events of orders, and does not run: gapless pipeline run p,"
            " or gapless pipeline remove p"), True,
        )],
    ),
    "an archive that never ran": (ARCHIVE, [(ARCHIVE_REASON, True)]),
    "that of another topic": (
        ARCHIVE + "select gapless.create_group('pipeline.p', 'other', 'latest'),"
        " gapless.create_group('pipeline.q', 'orders', 'latest');" + HANDLED,
        [(ARCHIVE_REASON, True)],
    ),
    "an archive that ran": (
        ARCHIVE + "select gapless.create_group('pipeline.p', 'orders', 'latest');" + HANDLED, [],
    ),
    "an archive that is overrun": (
        ARCHIVE + "update gapless.topic set overrun = '{{pipeline.p}}' where name = 'orders'", [],
    ),
    "an archive of what it has nothing of": (
        ARCHIVE + "delete from gapless.chunk_end where upto = {upto} and topic_id = {orders}", [],
    ),
    "stopped": (STOPPED.format(from_="{end} - 1"), [(STOP_REASON, True)]),
    "stopped behind it": (STOPPED.format(from_="{end}"), []),
    "stopped and overrun": (
        STOPPED.format(from_="{end} - 1")
        + "update gapless.topic set overrun = '{{billing}}' where name = 'orders'",
        [],
    ),
    "stopped where it has nothing": (
        STOPPED.format(from_="{end} - 1") + "delete from gapless.chunk_end where upto = {upto} and {here}",
        [],
    ),
    "compacted": (COMPACTED.format(at="{end}", more=""), []),
    "compaction is behind": (
        COMPACTED.format(at="{end} - 1 - p", more=""), [(COMPACTION % 3, True)],
    ),
    "compaction has no place yet": (
        COMPACTED.format(at="{end}", more="where name = 'other'"), [(COMPACTION % 12, True)],
    ),
    "compacted no more": (
        COMPACTED.format(at="1", more="") + "update gapless.topic set compacted = false", [],
    ),
    "without a topic": (
        UNROUTED.format(id=77, first="{upto} - 1"), [(UNROUTED_REASON % "topic id 77", True)],
    ),
    "without one of a hundred": (
        UNROUTED.format(id=0, first="{upto} - 1"), [(UNROUTED_REASON % "further topic ids", True)],
    ),
    "without a topic, in the next": (UNROUTED.format(id=77, first="{upto}"), []),
    "not complete": (
        "update gapless.retention_state set closed_upto = {upto} - 1",
        [("it is complete: the next look takes it into account", False)],
    ),
    "not complete, and the next has strays": (
        "update gapless.retention_state set closed_upto = {upto} - 1;"
        + UNROUTED.format(id=77, first="{upto}"),
        [("it is complete: the next look takes it into account", False)],
    ),
    "not complete, for it has strays": (
        "update gapless.retention_state set closed_upto = {upto} - 1;"
        + UNROUTED.format(id=77, first="{upto} - 1"),
        [(UNROUTED_REASON % "topic id 77", True)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REASONS)
def test_a_chunk_stays_for_these_reasons_alone(world: Shelf, name: str) -> None:
    statements, reasons = REASONS[name]
    if statements:
        world.run(statements)
    assert world.reasons() == reasons


def test_a_topic_says_until_when_it_keeps_its_newest(world: Shelf) -> None:
    """Of its partitions the one that has it counts."""
    world.run(
        "update gapless.chunk_end set newest_ts = newest_ts"
        " + case when {here} then interval '1 day' else interval '-1 day' end;"
        "update gapless.topic set retention = '1 hour' where name = 'orders'"
    )
    until = world.value(
        "select gapless.stamp(max(newest_ts) + interval '1 hour') from gapless.chunk_end"
        " where upto = %s and topic_id = %s",
        world.uptos[0],
        world.ids["orders"],
    )
    assert world.reasons() == [(f"topic orders keeps events until {until}", False)]


def test_only_behind_tells_whom_one_waits_for(world: Shelf) -> None:
    """A chunk that only waits for somebody; one that has another reason, too; and what is behind them."""
    world.run(ALL_BEHIND)
    query = "select upto, goes, is_behind from gapless.retention_plan() order by upto limit 3"
    assert world.conn.execute(query).fetchall() == [(upto, False, True) for upto in world.uptos]
    world.run("update gapless.topic set retention = null where name = 'other'")
    assert world.conn.execute(query).fetchone() == (world.uptos[0], False, False)
    world.run(HANDLED + "; update gapless.topic set retention = '1 us'")
    world.run("delete from gapless.chunk_end where upto = {upto}")
    assert world.conn.execute(query).fetchall() == [(upto, True, False) for upto in world.uptos]


@pytest.mark.parametrize("limit", [10_000, 5, 1])
def test_segments_are_forgotten_whose_events_are_gone(world: Shelf, limit: int) -> None:
    """In both partitions of one topic up to where they begin, in one of the other; the last ones stay."""
    world.run(
        "insert into gapless.log_start select topic_id, 0, {end}, now() from gapless.topic;"
        "insert into gapless.log_start values ({orders}, 1, 1000, now());"
        "update gapless.retention_state set dropped_upto = (select max(upto) from gapless.chunk)"
    )
    gone = {
        row[0]
        for row in world.conn.execute(
            "select to_jsonb(s)::text from gapless.log_segment s where last_offset < %s and partition_id = 0"
            " or topic_id = %s and partition_id = 1 and base_offset < gapless.last_base(topic_id, 1)",
            [FIRST_END, world.ids["orders"]],
        )
    }
    before = world.rows("gapless.log_segment")
    assert len(gone) == 2 * UNITS + CHUNKS * UNITS
    for done in range(0, len(gone), limit):
        step = min(limit, len(gone) - done)
        assert world.value("select gapless.forget_segments(%s)", limit) == step
        left = before - world.rows("gapless.log_segment")
        assert left <= gone
        assert len(left) == done + step
    assert world.value("select gapless.forget_segments(%s)", limit) == 0


@pytest.mark.parametrize("where", ["a later chunk", "the default chunk", "no chunk"])
def test_a_segment_stays_with_an_event_that_is_there(world: Shelf, where: str) -> None:
    world.run("insert into gapless.log_start values ({orders}, 1, {end}, now())")
    ids: list[int] = world.value(
        "select array_agg(i order by i) from gapless.log_segment, unnest(message_ids) i"
        " where topic_id = %s and partition_id = 1 and last_offset < %s",
        world.ids["orders"],
        FIRST_END,
    )
    dropped = ids[-1] + (where != "a later chunk")
    world.conn.execute("update gapless.retention_state set dropped_upto = %s", [dropped])
    if where == "the default chunk":
        world.conn.execute(
            "alter table gapless.outbox_message_t detach partition gapless.outbox_message_default;"
            " insert into gapless.outbox_message_default (id, topic_id, payload)"
            f" values ({ids[-1]}, 1, '1')"
        )
    assert world.value("select gapless.forget_segments()") == UNITS - (where != "no chunk")


def test_a_chunk_goes_alone_and_says_where_the_log_begins(world: Shelf) -> None:
    """Its events, its ends, and no others; a partition that begins later already keeps that beginning."""
    world.run(
        "insert into gapless.log_start values ({orders}, 1, {end} + 1, '2001-01-01Z'),"
        " ({orders}, 0, {end} - 1, '2001-01-01Z'), ({other}, 0, {end}, '2001-01-01Z')"
    )
    ends = world.rows("gapless.chunk_end")
    ours = world.rows(f"(select * from gapless.chunk_end where upto = {world.uptos[0]})")
    events = world.rows("gapless.outbox_message_t")
    starts = {
        (row[0], row[1]): row[2:]
        for row in world.conn.execute(
            "select topic_id, partition_id, next_offset, newest_ts from gapless.chunk_end where upto = %s",
            [world.uptos[0]],
        )
    }
    kept = world.conn.execute(
        "select topic_id, partition_id, first_offset, newest_ts from gapless.log_start where first_offset >= %s",
        [FIRST_END],
    ).fetchall()
    name = world.value("select chunk from gapless.chunk where upto = %s", world.uptos[0])
    assert world.value("select gapless.drop_chunk()") == name
    assert len(kept) == 2
    starts |= {(row[0], row[1]): row[2:] for row in kept}
    assert {
        (row[0], row[1]): row[2:] for row in world.conn.execute("select * from gapless.log_start")
    } == starts
    assert len(ours) == 4
    assert world.rows("gapless.chunk_end") == ends - ours
    assert world.value("select dropped_upto from gapless.retention_state") == world.uptos[0]
    assert world.value(f"select count(*) from gapless.{name}") == 0
    assert len(events) - len(world.rows("gapless.outbox_message_t")) == 2 * 4 * UNITS


SETVAL = "select setval('gapless.outbox_message_id_seq', %s, %s)"
# The chunk that is there, up to which id; the next id; and the chunks that are made then, two ahead.
MADE: dict[str, tuple[int | None, int, list[tuple[int, int]]]] = {
    "none, and no event": (None, 1, [(1, 1000), (1000, 2000), (2000, 3000)]),
    "none, and one event": (None, 2, [(502, 1000), (1000, 2000), (2000, 3000)]),
    "one, and room for half of it": (1000, 500, [(1000, 2000), (2000, 3000)]),
    "one, and no room for half of it": (1000, 501, [(1001, 2000), (2000, 3000)]),
    "one, and none of it is left": (1000, 1600, [(2100, 3000), (3000, 4000)]),
    "enough": (3000, 999, []),
    "not enough": (3000, 1000, [(3000, 4000)]),
    "of another size": (900, 100, [(900, 1000), (1000, 2000), (2000, 3000)]),
}  # fmt: skip


@pytest.mark.parametrize("is_called", [True, False])
@pytest.mark.parametrize("name", MADE)
def test_which_chunks_are_made(world: Shelf, name: str, is_called: bool) -> None:
    upto, next_id, made = MADE[name]
    if is_called and next_id == 1:
        return  # then the next one is 2
    before = world.value("select last_value from gapless.outbox_message_id_seq")
    try:
        with world.conn.transaction(force_rollback=True):
            for (chunk,) in world.conn.execute("select chunk from gapless.chunk").fetchall():
                world.conn.execute(f"drop table gapless.{chunk}")
            if upto is not None:
                world.conn.execute(
                    "create table gapless.outbox_message_1 partition of gapless.outbox_message_t"
                    f" for values from (1) to ({upto})"
                )
            world.value(SETVAL, next_id - is_called, is_called)
            assert world.value("select gapless.create_chunks()") == len(made)
            chunks = world.conn.execute("select from_id, upto from gapless.chunk order by 1")
            assert chunks.fetchall() == [(1, upto)] * (upto is not None) + made
    finally:
        world.value(SETVAL, before, True)  # what no ROLLBACK takes back


def test_emptied_chunks_are_taken_out_and_no_others(world: Shelf) -> None:
    assert world.value("select gapless.drop_emptied_chunks()") == 0
    for _ in range(2):
        world.value("select gapless.drop_chunk()")
    assert world.value("select gapless.drop_emptied_chunks()") == 2
    assert world.value("select min(upto) from gapless.chunk") == world.uptos[2]


@pytest.mark.parametrize("floor", [-2, -1, 0])
def test_a_chunk_is_complete_once_the_floor_is_at_its_last_id(world: Shelf, floor: int) -> None:
    """What is written of it, and of those before it, is what is in them."""
    ends = world.rows("gapless.chunk_end")
    world.run(
        "delete from gapless.chunk_end; update gapless.retention_state set closed_upto = 1;"
        f"update gapless.sequencer set floor_id = {world.uptos[1]} + {floor}"
    )
    complete = 1 if floor == -2 else 2
    assert world.value("select gapless.close_chunks()") == complete
    wanted = world.rows(
        f"(select * from gapless.chunk_end where upto <= {world.uptos[complete - 1]})"
    )
    assert world.rows("gapless.chunk_end") == wanted
    assert wanted <= ends
    assert len(wanted) == 4 * complete
    assert (
        world.value("select closed_upto from gapless.retention_state") == world.uptos[complete - 1]
    )
    assert world.value("select gapless.close_chunks()") == 0


@pytest.mark.parametrize("behind", [0, 1])
def test_a_stray_keeps_the_chunk_it_is_in(world: Shelf, behind: int) -> None:
    world.run("delete from gapless.chunk_end; update gapless.retention_state set closed_upto = 1")
    world.run(
        UNROUTED.format(id=77, first=f"{world.uptos[1]} - {behind}").replace("{upto}", "99999999")
    )
    assert world.value("select gapless.close_chunks()") == 2 - behind


# What is written already, or where the log begins; of which place more events or fewer are written, and how
# many of which chunk.
CLOSED: dict[str, tuple[str, dict[tuple[str, int, int], int]]] = {
    "from the first": ("delete from gapless.chunk_end", {}),
    "the first is written": ("delete from gapless.chunk_end where upto > {upto}", {}),
    "the first, but of one place": (
        "delete from gapless.chunk_end where upto > {upto} or {here}", {("orders", 1, 1): 4 * UNITS},
    ),
    "the log begins in the first": (
        "delete from gapless.chunk_end; insert into gapless.log_start values ({orders}, 0, 4, now())",
        {("orders", 0, 0): 2 * UNITS - 3},
    ),
    "it had more partitions": (
        ("delete from gapless.chunk_end;"
        "update gapless.topic set partitions = 1, partitions_ever = 2 where name = 'orders'"),
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSED)
def test_what_is_written_begins_where_it_ended(world: Shelf, name: str) -> None:
    statements, other = CLOSED[name]
    world.run(statements)
    world.run(
        "update gapless.retention_state set closed_upto = coalesce((select max(upto) from gapless.chunk_end), 1)"
    )
    first = int(world.value("select count(*) from gapless.chunk_end") > 0)
    assert world.value("select gapless.close_chunks()") == CHUNKS - first
    rows = world.conn.execute(
        "select t.name, e.partition_id, e.upto, e.events, e.next_offset"
        " from gapless.chunk_end e join gapless.topic t using (topic_id) where e.upto > %s",
        [world.uptos[0] if first else 1],
    ).fetchall()
    assert sorted(rows) == [
        (
            topic,
            partition,
            upto,
            other.get((topic, partition, nth), 2 * UNITS),
            2 * UNITS * (nth + 1) + 1,
        )
        for topic in ("orders", "other")
        for partition in (0, 1)
        for nth, upto in enumerate(world.uptos)
        if nth >= first
    ]


def test_what_is_written_of_a_chunk_counts_its_own_events(world: Shelf) -> None:
    rows = world.conn.execute(
        "select upto, next_offset, events from gapless.chunk_end order by 1, 2"
    ).fetchall()
    per_chunk = 2 * UNITS
    assert rows == [
        (upto, per_chunk * nth + 1, per_chunk)
        for nth, upto in enumerate(world.uptos, 1)
        for _ in range(4)
    ]
    wrong = world.value(
        "select count(*) from gapless.chunk_end e where e.newest_ts is distinct from ("
        " select s.sequenced_ts from gapless.log_segment s where s.topic_id = e.topic_id"
        " and s.partition_id = e.partition_id and e.next_offset - 1 between s.base_offset and s.last_offset)"
    )
    assert wrong == 0


def test_only_what_is_closed_and_old_is_forgotten(world: Shelf) -> None:
    """Of each of eight places two letters; who discarded one is said in the audit."""
    world.run(LETTERS)
    world.run(
        "delete from gapless.audit; insert into gapless.audit (at_ts, action, group_id, topic_id)"
        " values (clock_timestamp() - interval '80 min', 'old', '', 0),"
        " (clock_timestamp() - interval '70 min', 'new', '', 0)"
    )
    before, events = world.rows("gapless.dead_letter"), world.rows("gapless.dead_letter_event")
    gone = world.rows("(select * from gapless.dead_letter where first_offset in (3, 5))")
    gone_events = world.rows(
        "(select * from gapless.dead_letter_event where first_offset in (3, 5))"
    )
    assert world.conn.execute(PURGE).fetchone() == (16, 1)
    assert world.rows("gapless.dead_letter") == before - gone
    assert world.rows("gapless.dead_letter_event") == events - gone_events
    audits = world.conn.execute(
        "select who, action, group_id, topic_id, partition_id, detail from gapless.audit"
        " where action <> 'new' order by 3, 4, 5"
    ).fetchall()
    detail = {"offset": 3, "events": 2, "reason": "of no use"}
    assert audits == [
        ("me", "discard", group, topic, partition, detail)
        for group in ("billing", "mail")
        for topic in sorted(world.ids.values())
        for partition in (0, 1)
    ]


def test_history_goes_so_many_rows_at_a_time(world: Shelf) -> None:
    world.run(LETTERS)
    world.run("delete from gapless.audit")
    world.run(
        "insert into gapless.audit (at_ts, action, group_id, topic_id)"
        " select now() - interval '1 day', 'old', '', 0 from generate_series(1, 4)"
    )
    query = PURGE.replace(")", ", 3)")
    assert world.conn.execute(query).fetchone() == (3, 3)


def test_an_older_event_of_the_place_that_belongs_to_another_unit_stays(world: Shelf) -> None:
    """A group that was moved back has set some of the offsets aside again."""
    world.run(LETTERS)
    world.run("update gapless.dead_letter_event set c_offset = 0 where c_offset = 4")
    assert world.conn.execute(PURGE).fetchone() == (16, 0)
    assert world.value("select count(*) from gapless.dead_letter_event where c_offset = 0") == 8


def test_a_topic_keeps_no_events_for_no_time(world: Shelf) -> None:
    with pytest.raises(psycopg.Error, match="more than nothing"):
        world.conn.execute("select gapless.set_retention('orders', 0, null, '{}')")
