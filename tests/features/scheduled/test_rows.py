"""What promotion, cancelling and schedules do to each row that waits, beside rows that are nearly the same.

Everything is at a moment, one microsecond before it, or one behind; of each transaction, topic, time and
name there are two. So a condition that is missing in some function of SQL shows. Each test is taken back.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.clock import stop_at

NOW = "2030-01-01 12:00:00+00"
TICK = timedelta(microseconds=1)
MINUTE = timedelta(minutes=1)
GIVEN = UUID("12345678-1234-5678-1234-567812345678")
WAITS = (
    "insert into gapless.scheduled (deliver_at, scheduled_id, xid, timeline, topic_id, payload, event_type,"
    " transaction_id, dedupe_key) values (%s::timestamptz + %s, %s, %s::text::xid8, %s, %s, '1', %s, %s, %s)"
)
LOGGED = "select event_type, transaction_id from gapless.outbox_message_t order by id"
SCHEDULED = (
    "insert into gapless.schedule (name, topic_id, every, zone, starts_at, missed, next_due, last_due, fired)"
    " values (%s, 1, '1 minute', 'UTC', '2000-01-01 00:00+00', %s, %s::timestamptz + %s,"
    " %s::timestamptz + %s, 7)"
)


class Calendar:
    """What waits, in one session; all that a test does is taken back."""

    def __init__(self, conn: Connection[Any]) -> None:
        self.conn = conn
        for name in ("outbox", "orders"):
            conn.execute("select gapless.create_topic(%s, 2)", [name])
        stop_at(conn, NOW)

    def waits(
        self,
        number: int,
        after: timedelta = timedelta(),
        *,
        xid: int = 10,
        timeline: int = 1,
        topic_id: int = 1,
        given: UUID | None = None,
        dedupe_key: str | None = None,
    ) -> None:
        """Let an event wait, of which everything is chosen; its type is its number."""
        self.conn.execute(
            WAITS, [NOW, after, number, xid, timeline, topic_id, str(number), given, dedupe_key]
        )

    def schedule(
        self,
        name: str,
        next_due: timedelta = timedelta(),
        last_due: timedelta | None = None,
        missed: str = "once",
    ) -> None:
        """Let a schedule of each minute be due at `next_due`, counted from now."""
        self.conn.execute(SCHEDULED, [name, missed, NOW, next_due, NOW, last_due])

    def value(self, statement: str, *params: object) -> Any:
        row = self.conn.execute(statement, params).fetchone()  # type: ignore[arg-type]
        return None if row is None else row[0]

    def row(self, statement: str, *params: object) -> Any:
        return self.conn.execute(statement, params).fetchone()  # type: ignore[arg-type]

    def left(self) -> list[int]:
        """The numbers of what still waits."""
        return self.value(
            "select coalesce(array_agg(scheduled_id order by scheduled_id), '{}') from gapless.scheduled"
        )

    def logged(self) -> list[str]:
        """The types of what is in the log's table, in its order."""
        return [row[0] for row in self.conn.execute(LOGGED)]  # type: ignore[arg-type]

    def fired(self) -> dict[str, tuple[Any, ...]]:
        """Of each schedule how often it fired, and when it is due next, and was last, from now."""
        rows = self.conn.execute(
            "select name, fired, next_due - %s::timestamptz, last_due - %s::timestamptz from gapless.schedule",
            [NOW, NOW],
        )
        return {name: tuple(rest) for name, *rest in rows}


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Calendar]:
    with connect(module_dsn, role="test") as conn:
        yield Calendar(conn)


@pytest.fixture
def world(shared: Calendar) -> Iterator[Calendar]:
    """The same at the begin of each test."""
    with shared.conn.transaction(force_rollback=True):
        yield shared


MOVE = "select moved, held from gapless.move_due(%s, %s::timestamptz + %s, 0, %s::timestamptz)"


def test_what_is_due_moves_and_what_is_beside_it_stays(world: Calendar) -> None:
    """From the low mark to now, both included."""
    for number, (after, xid) in enumerate(
        [(-MINUTE - TICK, 10), (-MINUTE, 11), (timedelta(), 12), (TICK, 13)], 1
    ):
        world.waits(number, after, xid=xid)
    assert world.row(MOVE, 10, NOW, -MINUTE, NOW) == (2, 0)
    assert world.logged() == ["2", "3"]
    assert world.left() == [1, 4]


def test_a_transaction_moves_whole_and_no_other_with_it(world: Calendar) -> None:
    """Of its time: neither what it published for another one, nor what others published for that one."""
    world.waits(3, xid=10)
    world.waits(1, xid=11)
    world.waits(2, xid=10)
    world.waits(4, TICK * -1, xid=11)
    world.waits(5, MINUTE, xid=11)
    assert world.row(MOVE, 1, NOW, -MINUTE, NOW) == (1, 0)
    assert (world.logged(), world.left()) == (["4"], [1, 2, 3, 5])
    assert world.row(MOVE, 1, NOW, -MINUTE, NOW) == (1, 0)
    assert (world.logged(), world.left()) == (["4", "1"], [2, 3, 5])
    world.waits(6, xid=12)
    assert world.row(MOVE, 1, NOW, -MINUTE, NOW) == (2, 0)
    assert (world.logged(), world.left()) == (["4", "1", "2", "3"], [5, 6])


def test_the_order_is_by_time_then_by_the_first_of_a_transaction(world: Calendar) -> None:
    for number, after, xid in [
        (1, 0, 20),
        (2, -1, 21),
        (3, 0, 19),
        (4, 0, 19),
        (5, -1, 21),
        (6, 0, 20),
    ]:
        world.waits(number, timedelta(seconds=after), xid=xid)
    assert world.row(MOVE, 100, NOW, -MINUTE, NOW) == (6, 0)
    assert world.logged() == ["2", "5", "1", "6", "3", "4"]


def test_each_keeps_the_transaction_that_published_it(world: Calendar) -> None:
    world.waits(1, xid=10, timeline=3)
    world.waits(2, xid=11, given=GIVEN)
    world.row(MOVE, 100, NOW, -MINUTE, NOW)
    own = world.value("select gapless.transaction_uuid('10', 3)")
    assert world.conn.execute(LOGGED).fetchall() == [("1", own), ("2", GIVEN)]


# What waits from now, when a schedule is due from now (None: there is none), and in how many seconds, and
# from when on, promote() says to look again, if it was called with a low mark a minute ago; and what it moved.
TURNS: dict[str, tuple[list[float], float | None, tuple[int, float | None, float]]] = {
    "nothing": ([], None, (0, None, 0)),
    "one to come": ([5], None, (0, 5, 0)),
    "one below the mark": ([-61], None, (0, None, 0)),
    "one below the mark, and one due": ([-61, 0], None, (1, None, 0)),
    "one at the mark": ([-60, 9], None, (1, 9, 0)),
    "due now": ([0], None, (1, None, 0)),
    "due now, and one to come": ([0, 7], None, (1, 7, 0)),
    "a schedule to come": ([], 60, (0, 60, 0)),
    "a schedule before what waits": ([70], 60, (0, 60, 0)),
    "a schedule behind what waits": ([50], 60, (0, 50, 0)),
    "a schedule is due": ([], 0, (1, 60, 0)),
    "a schedule is due before what waits": ([50], 0, (1, 50, 0)),
    "both are due": ([-1, 0], 0, (3, 60, 0)),
}


@pytest.mark.parametrize("name", TURNS)
def test_a_turn_says_what_it_moved_and_when_to_look_again(world: Calendar, name: str) -> None:
    waits, due, (promoted, wait_s, low) = TURNS[name]
    for number, after in enumerate(waits, 1):
        world.waits(number, timedelta(seconds=after), xid=number)
    world.schedule("paused", -MINUTE)
    world.conn.execute("update gapless.schedule set paused_ts = now()")
    if due is not None:
        world.schedule("s", timedelta(seconds=due))
    assert world.row(
        "select promoted, wait_s, extract(epoch from low_at - %s::timestamptz)::float8"
        " from gapless.promote(low => %s::timestamptz - interval '1 minute')",
        NOW,
        NOW,
    ) == (promoted, wait_s, low)
    assert len(world.logged()) == promoted
    locked = world.value(
        "select exists (select from pg_locks where relation = 'gapless.guard_promoting'::regclass"
        " and pid = pg_backend_pid())"
    )
    assert locked == (promoted > 0), "what finds nothing due takes no lock"


def test_what_is_left_at_the_mark_is_due_still(world: Calendar) -> None:
    for number in (1, 2):
        world.waits(number, -MINUTE, xid=number)
    query = "select promoted, wait_s from gapless.promote(1, %s::timestamptz - interval '1 minute')"
    assert world.row(query, NOW) == (1, -60)


def test_a_low_mark_that_is_ahead_of_now_comes_back(world: Calendar) -> None:
    """The clock was put back: what is due until then has not been looked at."""
    assert world.value(
        "select low_at - %s::timestamptz from gapless.promote(low => %s::timestamptz + interval '1 s')",
        NOW,
        NOW,
    ) == timedelta(0)


def test_a_mark_is_of_a_time_and_a_number(world: Calendar) -> None:
    """Events that are due before they were looked at; a transaction counts at its first event."""
    for number, xid in enumerate([10, 11, 10, 12, 11, 13], 1):
        world.waits(number, xid=xid)
    query = "select promoted, held, low_at - %s::timestamptz, low_id from gapless.promote(2, %s, 2)"
    assert world.row(query, NOW, NOW) == (2, 0, timedelta(0), 4)
    assert (world.logged(), world.left()) == (["2", "5"], [1, 3, 4, 6])
    query = query.replace("(2, %s, 2)", "(9, %s, 4)")
    assert world.row(query, NOW, NOW) == (2, 0, timedelta(0), 0)
    assert (world.logged(), world.left()) == (["2", "5", "4", "6"], [1, 3])


def test_a_turn_ends_with_its_most(world: Calendar) -> None:
    for number in range(1, 8):
        world.waits(number, xid=number)
    assert world.value("select promoted from gapless.promote(4)") == 4
    assert world.value("select promoted from gapless.promote(4)") == 3


def _dedupe(world: Calendar, key: str, topic_id: int, of: UUID, message_id: int | None) -> None:
    world.conn.execute(
        "insert into gapless.dedupe (slot, topic_id, dedupe_key, transaction_id, message_id, published_ts)"
        " values (0, %s, %s, %s, %s, now())",
        [topic_id, key, of, message_id],
    )


@pytest.mark.parametrize("given", [None, GIVEN])
def test_a_cancel_takes_one_event_and_its_key_alone(world: Calendar, given: UUID | None) -> None:
    own = given or world.value("select gapless.transaction_uuid('10', 2)")
    other = world.value("select gapless.transaction_uuid('10', 1)")
    for number, after, key in [(1, 0, "k"), (2, 0, "l"), (3, 1, "m"), (4, 0, None)]:
        world.waits(number, timedelta(seconds=after), timeline=2, given=given, dedupe_key=key)
    for args in [
        ("k", 1, own, None), ("l", 1, own, None), ("k", 2, own, None), ("m", 1, own, 9),
    ]:  # fmt: skip
        _dedupe(world, *args)
    _dedupe(world, "n", 1, other, None)

    def keys() -> list[Any]:
        return world.conn.execute(
            "select dedupe_key, topic_id from gapless.dedupe order by 1, 2"
        ).fetchall()

    assert world.value("select gapless.cancel(1)") is True
    assert world.left() == [2, 3, 4]
    assert keys() == [("k", 2), ("l", 1), ("m", 1), ("n", 1)]
    assert world.value("select gapless.cancel(1)") is False
    assert world.value("select gapless.cancel(3)") is True
    assert world.value("select gapless.cancel(4)") is True
    world.conn.execute("update gapless.scheduled set dedupe_key = 'n'")
    assert world.value("select gapless.cancel(2)") is True
    assert keys() == [("k", 2), ("l", 1), ("m", 1), ("n", 1)]


# What somebody is a member of, whether that one has scheduled it, and may cancel it.
CANCELS = {
    "its producer": ("gapless_producer", True, True),
    "another producer": ("gapless_producer", False, False),
    "an operator": ("gapless_producer, gapless_operator", False, True),
    "an owner": ("gapless_producer, {owner}", False, True),
    "an observer": ("gapless_producer, pg_monitor", False, False),
}


@pytest.mark.parametrize("name", CANCELS)
def test_who_may_cancel(world: Calendar, name: str) -> None:
    roles, own, may = CANCELS[name]
    owner = world.value(
        "select nspowner::regrole::text from pg_namespace where nspname = 'gapless'"
    )
    world.waits(1)
    world.conn.execute("create role gapless_test_canceller login")
    world.conn.execute(f"grant {roles.format(owner=owner)} to gapless_test_canceller")  # type: ignore[arg-type]
    if own:
        world.conn.execute("update gapless.scheduled set scheduled_by = 'gapless_test_canceller'")
    world.conn.execute("set local session authorization gapless_test_canceller")
    if may:
        assert world.value("select gapless.cancel(1)") is True
        return
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="log in as that role"):
        world.value("select gapless.cancel(1)")


@pytest.mark.parametrize("given", [None, GIVEN])
def test_until_when_a_transaction_waits(world: Calendar, given: UUID | None) -> None:
    """Of its own events the last one; of some topics those alone."""
    minutes = [timedelta(minutes=n) for n in range(8)]
    world.waits(1, minutes[1], timeline=2, given=given)
    world.waits(2, minutes[2], timeline=2, given=given)
    world.waits(3, minutes[3], timeline=2, topic_id=2, given=given)
    world.waits(4, minutes[4], timeline=2, topic_id=2, given=given)
    world.waits(5, minutes[5], timeline=1)
    world.waits(6, minutes[6], xid=11, timeline=2)
    world.waits(7, minutes[7], timeline=2, given=UUID(int=7))
    own = given or world.value("select gapless.transaction_uuid('10', 2)")
    for topics, until in [(None, 4), ([1], 2), ([1, 2], 4), ([2], 4)]:
        assert (
            world.value(
                "select gapless.scheduled_until(%s, %s::int[]) - %s::timestamptz", own, topics, NOW
            )
            == minutes[until]
        )
    assert world.value("select gapless.scheduled_until(%s, '{3}')", own) is None


# missed, when it is due and was last, in seconds from now; how often it fires, when it is due next and was last.
FIRES: dict[str, tuple[str, float, float | None, tuple[int, float, float | None]]] = {
    "now": ("once", 0, None, (1, 60, 0)),
    "in a moment": ("once", 1e-6, None, (0, 1e-6, None)),
    "again": ("once", 0, 0, (0, 60, 0)),
    "once more than the last": ("once", 0, -60, (1, 60, 0)),
    "missed, once": ("once", -180, -240, (1, 60, 0)),
    "missed by one": ("once", -60, None, (1, 60, 0)),
    "missed, all": ("all", -180, -240, (4, 60, 0)),
    "missed, all but what was published": ("all", -180, -180, (0, -120, -180)),
    "skipped": ("skip", -180, None, (1, 60, 0)),
}


@pytest.mark.parametrize("name", FIRES)
def test_a_schedule_fires_once_for_what_is_due(world: Calendar, name: str) -> None:
    missed, due, last, (fires, due_next, last_due) = FIRES[name]

    def ago(seconds: float | None) -> timedelta | None:
        return None if seconds is None else timedelta(seconds=seconds)

    world.schedule("s", timedelta(seconds=due), ago(last), missed)
    world.schedule("other", MINUTE, -MINUTE, missed)
    world.schedule("paused", -MINUTE, -3 * MINUTE, missed)
    world.conn.execute("update gapless.schedule set paused_ts = now() where name = 'paused'")
    beside = {name: row for name, row in world.fired().items() if name != "s"}
    assert world.value("select gapless.fire_schedules(100)") == fires
    assert world.fired() == beside | {"s": (7 + fires, ago(due_next), ago(last_due))}
    assert world.logged() == ["s"] * fires


@pytest.mark.parametrize("ago", [0, 5, 10, 50, 3600])
def test_the_newest_due_time_is_not_after_now(world: Calendar, ago: int) -> None:
    """Of one that is due each 10 s, last looked at so many seconds ago."""
    world.conn.execute("set local statement_timeout = '5 s'")
    world.schedule("s", timedelta(seconds=-ago))
    query = (
        "select gapless.newest_due(s, %s::timestamptz) - %s::timestamptz from gapless.schedule s"
    )
    world.conn.execute("update gapless.schedule set every = '10 s', starts_at = next_due")
    assert world.value(query, NOW, NOW) == timedelta(seconds=-(ago % 10))


def test_the_only_due_time_is_the_newest(world: Calendar) -> None:
    world.conn.execute("set local statement_timeout = '5 s'")
    world.schedule("s", timedelta(seconds=-30))
    world.conn.execute("update gapless.schedule set starts_at = next_due")
    query = (
        "select gapless.newest_due(s, %s::timestamptz) - %s::timestamptz from gapless.schedule s"
    )
    assert world.value(query, NOW, NOW) == timedelta(seconds=-30)


@pytest.mark.parametrize(("late", "fires"), [(60.0, 1), (60.000001, 0)])
def test_what_may_be_skipped_is_older_than_a_minute(
    world: Calendar, late: float, fires: int
) -> None:
    world.conn.execute(SCHEDULED, ["s", "skip", NOW, timedelta(seconds=-late), NOW, None])
    world.conn.execute("update gapless.schedule set every = '1 hour', starts_at = next_due")
    assert world.value("select gapless.fire_schedules(100)") == fires


def test_so_many_are_published_in_a_call(world: Calendar) -> None:
    """Of several schedules, and of one that has missed much."""
    for number, due in enumerate([-5, -4, -3, 0]):
        world.schedule(f"s{number}", due * MINUTE, missed="all")
    assert world.value("select gapless.fire_schedules(8)") == 8
    assert {name: row[0] - 7 for name, row in world.fired().items()} == {
        "s0": 6,
        "s1": 2,
        "s2": 0,
        "s3": 0,
    }
    assert world.fired()["s1"][1:] == (-2 * MINUTE, -3 * MINUTE)
    assert world.value("select gapless.fire_schedules(3)") == 3
    assert world.value("select gapless.fire_schedules(100)") == 5
    assert world.value("select gapless.fire_schedules(100)") == 0


def test_one_that_has_no_next_time_stops_alone(world: Calendar) -> None:
    world.schedule("bad", missed="all")
    world.schedule("good")
    world.conn.execute(
        "update gapless.schedule set zone = 'Moon/Sea', every = '1 day' where name = 'bad'"
    )
    assert world.value("select gapless.fire_schedules(100)") == 2
    assert world.fired() == {"bad": (8, None, timedelta()), "good": (8, MINUTE, timedelta())}
    troubles = world.conn.execute("select name from gapless.schedule where trouble is not null")
    assert troubles.fetchall() == [("bad",)]


# What is said; the time that is due from now, None for one that is published at once, and how it is refused.
TIMES: dict[str, tuple[str, str | None]] = {
    "null, null": ("", None),
    "now() + interval '1 us', null": ("0:00:00.000001", None),
    "now(), null": ("", None),
    "'1970-01-01 00:00Z', null": ("", None),
    "'1969-12-31 23:59:59Z', null": ("", "deliver_at .* no time"),
    "'9000-01-01 00:00:01Z', null": ("", "deliver_at .* no time"),
    "null, '0'": ("", None),
    "null, '1 us'": ("0:00:00.000001", None),
    "null, '-1 us'": ("", "is negative"),
    "null, '8001 years'": ("", "deliver_in .* no time"),
    "null, '8000 years'": ("", "deliver_in .* no time"),
    "now(), '0'": ("", "one of the two"),
}


@pytest.mark.parametrize("said", TIMES)
def test_what_is_a_time_to_deliver_at(world: Calendar, said: str) -> None:
    wanted, refused = TIMES[said]
    query = f"select gapless.deliver_time({said}) - now()"
    if refused:
        with pytest.raises(psycopg.Error, match=refused):
            world.value(query)
        return
    due = world.value(query)
    assert ("" if due is None else str(due)) == wanted


def test_the_last_time_that_is_one(world: Calendar) -> None:
    assert world.value("select gapless.deliver_time('9000-01-01 00:00Z', null) is not null")
