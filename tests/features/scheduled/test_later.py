"""Events for later: not before their time (S1), delivered or cancelled (S2), whole (S3), in order (S4)."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

import gapless
from gapless import NewEvent, Published, PublishError
from gapless.db.connect import connect
from gapless.features.scheduled.later import Promoter
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic, ensure_topic
from gapless.log.wait import wait_for
from gapless.ops.doctor.rounds import diagnose
from gapless.status import snapshot
from gapless.testing import drain
from support.clock import shift
from support.log import assert_gapless, assert_neighbours, placed, tags
from support.publisher import Publisher, publisher
from support.servers import until

HOUR = timedelta(hours=1)
FAR = "2100-01-01T00:00Z"
UNIT = UUID("12345678-1234-5678-1234-567812345678")


# How somebody has events for later in hand, and how they are named.
_ROWS, _TABLE = "cancelled or locked 1 event for later that is due", "locked the table of events"
_CANCEL = "select gapless.cancel(scheduled_id) from gapless.scheduled"
HELD = {
    "a savepoint": (["savepoint s", _CANCEL], _ROWS),
    "a savepoint that was released": (["savepoint s", _CANCEL, "release s"], _ROWS),
    "for key share": (["select from gapless.scheduled for key share"], _ROWS),
    "prepared": ([_CANCEL, "prepare transaction 'left''s'"], _ROWS),
    "a table": (["lock table gapless.scheduled in share mode"], _TABLE),
    "prepared, a table": (
        ["lock table gapless.scheduled in exclusive mode", "prepare transaction 'left''s'"],
        _TABLE,
    ),
}


@pytest.fixture(params=["sync", "async"])
def own(request: pytest.FixtureRequest, dsn: str, topic: Topic) -> Iterator[Publisher]:
    with publisher(dsn, request.param) as made:
        yield made


@pytest.fixture
def other(dsn: str, topic: Topic) -> Iterator[Connection[Any]]:
    with connect(dsn, role="test") as made:
        yield made


def _ids(published: UUID) -> tuple[int, ...]:
    assert isinstance(published, Published)
    return published.scheduled_ids


def _turn(conn: Connection) -> list[str | None]:
    """Do what a sequencer does; return the tags of what is in the log now."""
    Promoter().promote_all(conn)
    sequence(conn)
    return tags(placed(conn))


def _now(conn: Connection) -> datetime:
    row = conn.execute("select now()").fetchone()
    assert row is not None
    moment: datetime = row[0]
    return moment


def _waiting(conn: Connection) -> int:
    row = conn.execute("select count(*) from gapless.scheduled").fetchone()
    assert row is not None
    return int(row[0])


class TestNotBeforeItsTime:
    def test_it_comes_when_its_time_has_come(self, own: Publisher, conn: Connection) -> None:
        published = own.publish("outbox", 1, event_type="a", deliver_in=3600)
        assert len(_ids(published)) == 1
        assert _turn(conn) == []
        shift(conn, HOUR - timedelta(seconds=30))
        assert _turn(conn) == []
        shift(conn, HOUR)
        assert _turn(conn) == ["a"]
        assert _turn(conn) == ["a"]
        assert _waiting(conn) == 0

    def test_what_is_not_due_yet_stays_when_another_is(
        self, conn: Connection, topic: Topic
    ) -> None:
        publish(conn, "outbox", 1, event_type="a", deliver_in=10)
        publish(conn, "outbox", 1, event_type="b", deliver_in=3600)
        shift(conn, 11)
        assert _turn(conn) == ["a"]
        assert _waiting(conn) == 1

    def test_all_that_was_published_of_it_comes(self, own: Publisher, conn: Connection) -> None:
        given: dict[str, Any] = {
            "key": "k", "event_type": "t", "headers": {"a": 1}, "host_id": "H", "user_id": "U",
            "transaction_id": UNIT,
        }  # fmt: skip
        at = _now(conn) + HOUR
        own.publish("outbox", {"n": 1}, deliver_at=at, **given)
        shift(conn, HOUR)
        _turn(conn)
        row = conn.execute(
            "select payload, key, event_type, headers, host_id, user_id, transaction_id"
            " from gapless.outbox_message_t"
        ).fetchone()
        assert row == ({"n": 1}, *given.values())

    @pytest.mark.parametrize("many", [3, 450])
    def test_many_with_and_without_a_time(
        self, own: Publisher, conn: Connection, many: int
    ) -> None:
        events = [
            NewEvent(payload=n, event_type=str(n), deliver_in=HOUR if n % 3 == 2 else None)
            for n in range(many)
        ]
        published = own.publish("outbox", events)
        assert len(_ids(published)) == many // 3
        assert len(_turn(conn)) == many - many // 3
        shift(conn, HOUR)
        assert sorted(_turn(conn), key=str) == sorted(map(str, range(many)))

    def test_what_has_passed_is_published_at_once(self, own: Publisher, conn: Connection) -> None:
        published = own.publish("outbox", 1, event_type="a", deliver_at=_now(conn) - HOUR)
        assert _ids(published) == ()
        assert own.publish("outbox", 2, event_type="b", deliver_in=0)
        assert sorted(map(str, _turn(conn))) == ["a", "b"]

    def test_in_sql(self, conn: Connection, topic: Topic) -> None:
        conn.execute("select gapless.publish('outbox', '1', deliver_in => '1 hour')")
        conn.execute("select gapless.publish('outbox', '1', deliver_at => now() + '1 hour')")
        row = conn.execute(
            "select scheduled_id, duplicate from gapless.publish_later('outbox', '1',"
            " deliver_in => '1 hour')"
        ).fetchone()
        assert row == (3, False)
        assert _waiting(conn) == 3


class TestClockSteps:
    def test_back_it_waits_and_comes_once(self, conn: Connection, topic: Topic) -> None:
        publish(conn, "outbox", 1, event_type="a", deliver_in=10)
        shift(conn, 11)
        assert _turn(conn) == ["a"]
        publish(conn, "outbox", 1, event_type="b", deliver_in=10)
        shift(conn, -HOUR)
        assert _turn(conn) == ["a"]
        shift(conn, 11)
        assert sorted(map(str, _turn(conn))) == ["a", "b"]

    def test_ahead_it_comes_early_and_once(self, conn: Connection, topic: Topic) -> None:
        publish(conn, "outbox", 1, event_type="a", deliver_in=1800)
        shift(conn, HOUR)
        assert _turn(conn) == ["a"]
        shift(conn, 0)
        assert _turn(conn) == ["a"]
        shift(conn, HOUR)
        assert _turn(conn) == ["a"]

    def test_what_the_sequencer_remembers_survives_a_step(
        self, conn: Connection, topic: Topic
    ) -> None:
        promoter = Promoter()
        publish(conn, "outbox", 1, deliver_in=7200)
        shift(conn, 2 * HOUR)
        assert promoter.promote(conn) == 1
        shift(conn, 0)
        publish(conn, "outbox", 2, deliver_in=10)
        shift(conn, 11)
        assert until(lambda: promoter.promote(conn) == 1)


class TestWholeAndInOrder:
    def test_transactions_that_took_turns_stay_units(
        self, conn: Connection, other: Connection
    ) -> None:
        """S3: their ids alternate, and they have one time, key and moment of promotion."""
        with conn.transaction(), other.transaction():
            for n in range(3):
                publish(conn, "outbox", n, key="k", event_type=f"a{n}", deliver_at=FAR)
                publish(other, "outbox", n, key="k", event_type=f"b{n}", deliver_at=FAR)
        shift(conn, timedelta(days=40_000))
        assert _turn(conn) == ["a0", "a1", "a2", "b0", "b1", "b2"]
        (events,) = placed(conn).values()
        assert [event.ends_unit for event in events] == [False, False, True] * 2

    def test_a_turn_is_bounded_but_ends_with_a_whole_transaction(
        self, conn: Connection, topic: Topic
    ) -> None:
        """S3: the limit of a turn does not cut a unit."""
        for name in "abc":
            with conn.transaction():
                for n in range(10):
                    publish(conn, "outbox", n, key="k", event_type=f"{name}{n}", deliver_at=FAR)
        shift(conn, timedelta(days=40_000))
        promoted = []
        while True:
            row = conn.execute("select promoted from gapless.promote(5)").fetchone()
            sequence(conn)
            assert row is not None
            if not row[0]:
                break
            promoted.append(row[0])
        assert promoted == [10, 10, 10]
        log = placed(conn)
        assert_gapless(log)
        assert_neighbours(log)
        (events,) = log.values()
        assert sum(event.ends_unit for event in events) == 3

    def test_the_order_is_that_of_their_times(self, conn: Connection, topic: Topic) -> None:
        """S4, and of one time that of their first events."""
        for tag, at in (("late", 30), ("first", 10), ("second", 20)):
            publish(conn, "outbox", 1, key="k", event_type=tag, deliver_at=_after(at))
        publish(conn, "outbox", 1, key="k", event_type="third", deliver_at=_after(20))
        shift(conn, timedelta(days=40_000))
        assert _turn(conn) == ["first", "second", "third", "late"]

    def test_who_promotes_is_alone(self, conn: Connection, other: Connection) -> None:
        """S4: two at once would commit in either order."""
        publish(conn, "outbox", 1, deliver_at=FAR)
        shift(conn, timedelta(days=40_000))
        with other.transaction():
            assert other.execute("select promoted from gapless.promote()").fetchone() == (1,)
            assert conn.execute("select promoted from gapless.promote()").fetchone() == (None,)
        assert conn.execute("select promoted from gapless.promote()").fetchone() == (0,)

    def test_a_cause_is_kept(self, conn: Connection, topic: Topic) -> None:
        """I10: what a handler publishes for later says what it came of."""
        with conn.transaction():
            conn.execute("select gapless.tell_cause('g/outbox/0@7', %s)", [UNIT])
            publish(conn, "outbox", 1, deliver_at=FAR)
        shift(conn, timedelta(days=40_000))
        _turn(conn)
        row = conn.execute(
            "select cause, correlation, transaction_id = gapless.cause_uuid(cause)"
            " from gapless.outbox_message_t"
        ).fetchone()
        assert row == ("g/outbox/0@7", UNIT, True)


def _after(seconds: int) -> datetime:
    return datetime(2100, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


class TestCancel:
    def test_it_never_comes(self, own: Publisher, conn: Connection) -> None:
        (first,) = _ids(own.publish("outbox", 1, event_type="a", deliver_in=10))
        own.publish("outbox", 1, event_type="b", deliver_in=10)
        assert gapless.cancel(conn, first) is True
        assert gapless.cancel(conn, first) is False
        shift(conn, 11)
        assert _turn(conn) == ["b"]

    def test_what_is_in_the_log_cannot_be_cancelled(self, conn: Connection, topic: Topic) -> None:
        (first,) = _ids(publish(conn, "outbox", 1, event_type="a", deliver_in=10))
        shift(conn, 11)
        assert _turn(conn) == ["a"]
        assert gapless.cancel(conn, first) is False

    def test_a_cancel_that_is_open_is_passed_by(self, conn: Connection, other: Connection) -> None:
        """S2 and I11: nobody waits for it, and when it is rolled back the event comes."""
        (first,) = _ids(publish(conn, "outbox", 1, event_type="a", deliver_in=10))
        publish(conn, "outbox", 1, event_type="b", deliver_in=10)
        shift(conn, 11)
        with other.transaction(force_rollback=True):
            assert gapless.cancel(other, first)
            assert _turn(conn) == ["b"]
        assert sorted(map(str, _turn(conn))) == ["a", "b"]

    def test_a_unit_of_which_one_is_being_cancelled_waits_as_a_whole(
        self, conn: Connection, other: Connection
    ) -> None:
        """S3: else the cancel could be rolled back, and the rest would be gone ahead."""
        events = [NewEvent(payload=n, key="k", event_type=str(n), deliver_in=10) for n in range(3)]
        (_, second, _) = _ids(publish(conn, "outbox", events))
        shift(conn, 11)
        with other.transaction(force_rollback=True):
            assert gapless.cancel(other, second)
            assert _turn(conn) == []
        assert _turn(conn) == ["0", "1", "2"]
        (events_,) = placed(conn).values()
        assert [event.ends_unit for event in events_] == [False, False, True]

    def test_open_cancels_keep_nobody_elses_events_back(
        self, conn: Connection, other: Connection
    ) -> None:
        """I11: more of them than a turn looks at."""
        mine = [
            _ids(publish(conn, "outbox", [NewEvent(payload=0, deliver_in=10)] * 4))[0]
            for _ in range(8)
        ]
        publish(conn, "outbox", 1, event_type="b", deliver_in=10)
        shift(conn, 11)
        with other.transaction():
            for each in mine:
                assert gapless.cancel(other, each)
            conn.execute("select gapless.promote(3)")
            sequence(conn)
            assert tags(placed(conn)) == ["b"]

    @pytest.mark.invariant("I11")
    def test_what_open_cancels_hold_is_stepped_over_once(
        self, conn: Connection, other: Connection
    ) -> None:
        """A call looks at its most, and the next one behind that: what comes later comes at once."""
        scheduled = (
            "insert into gapless.scheduled (deliver_at, xid, timeline, topic_id, payload, event_type)"
            " select now() + '10 s', (9 + n / 2)::text::xid8, 1, 1, '1', (n % 2)::text"
            " from generate_series(0, 119) n returning scheduled_id"
        )
        held = [row[0] for row in conn.execute(scheduled)][::2]
        publish(conn, "outbox", 1, event_type="b", deliver_in=11)
        shift(conn, 12)
        ask = "select promoted, held, low_at, low_id from gapless.promote(10, %s, %s)"
        place: list[Any] = ["-infinity", 0]

        def look() -> tuple[int, int]:
            promoted, was_held, *place[:] = conn.execute(ask, place).fetchone()  # type: ignore[misc]
            return promoted, was_held

        with other.transaction(force_rollback=True):
            assert all(gapless.cancel(other, each) for each in held)
            looks = [look() for _ in range(14)]
            assert looks == [(0, 10)] * 12 + [(1, 0), (0, 0)]
            publish(conn, "outbox", 1, event_type="c", deliver_in=13)
            shift(conn, 14)
            assert look() == (1, 0)
        assert conn.execute(ask, ["-infinity", 0]).fetchone()[0] == 10  # type: ignore[index]
        assert Promoter().promote_all(conn) == 110

    @pytest.mark.invariant("I11")
    @pytest.mark.few(2)
    @pytest.mark.parametrize("holds", HELD)
    def test_who_holds_what_is_due_is_named_and_nobody_else_waits(
        self, dsn: str, conn: Connection, other: Connection, holds: str
    ) -> None:
        """A session or a prepared transaction, in whatever way it has the rows, or the table."""
        statements, told = HELD[holds]
        publish(conn, "outbox", 1, deliver_in=10)
        remedy = f"pg_terminate_backend({other.info.backend_pid})"
        other.execute("begin")
        try:
            for statement in statements:
                other.execute(statement)
            if holds.startswith("prepared"):
                remedy = "rollback prepared 'left''s'"
            if "table" not in holds:
                publish(conn, "outbox", 1, event_type="b", deliver_in=11)
            publish(conn, "outbox", 1, event_type="now")
            shift(conn, 100)
            assert snapshot(conn).obstacles == ()
            promoter = Promoter()
            assert until(lambda: bool(promoter.promote(conn) or promoter.holds))
            sequence(conn)
            assert promoter.holds
            came = ["now"] if "table" in holds else ["now", "b"]
            assert sorted(map(str, tags(placed(conn)))) == sorted(came)
            assert until(lambda: bool(snapshot(conn).obstacles))
            (found,) = snapshot(conn).obstacles
            assert told in found.problem
            assert remedy in found.remedy
            # Who has locked a table is all that doctor says then.
            where, what = ("locks", "scheduled") if "table" in holds else ("obstacles", told)
            assert any(what in each.text for each in diagnose(dsn) if each.name == where)
        finally:
            other.execute("rollback")
            if holds.startswith("prepared"):
                conn.execute("rollback prepared 'left''s'")
        assert snapshot(conn).obstacles == ()

    def test_a_cancel_waits_for_a_promotion_and_comes_too_late(
        self, conn: Connection, other: Connection
    ) -> None:
        """S2, step by step: the promotion has the row, the cancel waits, and finds nothing."""
        (first,) = _ids(publish(conn, "outbox", 1, event_type="a", deliver_in=10))
        shift(conn, 11)
        answers: list[bool] = []
        with conn.transaction():
            assert conn.execute("select promoted from gapless.promote()").fetchone() == (1,)
            thread = threading.Thread(target=lambda: answers.append(gapless.cancel(other, first)))
            thread.start()
            assert _is_waiting(conn, other)
            assert answers == []
        thread.join()
        assert answers == [False]
        assert _turn(conn) == ["a"]

    def test_a_promotion_that_is_rolled_back_lets_it_be_cancelled(
        self, conn: Connection, other: Connection
    ) -> None:
        (first,) = _ids(publish(conn, "outbox", 1, deliver_in=10))
        shift(conn, 11)
        with conn.transaction(force_rollback=True):
            conn.execute("select gapless.promote()")
        assert gapless.cancel(other, first)
        assert _turn(conn) == []


def _is_waiting(conn: Connection, other: Connection) -> bool:
    return until(
        lambda: (
            conn.execute(
                "select pid from pg_stat_activity where pid = %s and wait_event_type = 'Lock'",
                [other.info.backend_pid],
            ).fetchone()
            is not None
        )
    )


class TestBadInput:
    @pytest.mark.writes_nothing
    @pytest.mark.parametrize(
        ("fields", "says"),
        [
            ({"deliver_in": 2.5e11}, "is no time to deliver at: give one from 1970 to 9000"),
            ({"deliver_at": "1969-12-31T23:59Z"}, "is no time to deliver at: give one from 1970"),
            ({"deliver_at": "9999-01-01T00:00Z"}, "is no time to deliver at: give one from 1970"),
            ({"deliver_at": "294277-01-01T00:00Z"}, "is no time: write it as"),
            ({"deliver_at": FAR, "deliver_in": 1}, "give one of the two"),
        ],
    )
    def test_one_sentence_and_nothing_is_stored(
        self, own: Publisher, conn: Connection, fields: dict[str, Any], says: str
    ) -> None:
        with pytest.raises(PublishError, match=says) as caught:
            own.publish("outbox", 1, **fields)
        assert "\n" not in str(caught.value)
        assert _waiting(conn) == 0
        assert _turn(conn) == []


class TestLook:
    def test_nothing_due_takes_no_xid(self, conn: Connection, topic: Topic) -> None:
        publish(conn, "outbox", 1, deliver_at=FAR)
        with conn.transaction():
            conn.execute("select gapless.promote()")
            assert conn.execute("select pg_current_xact_id_if_assigned()").fetchone() == (None,)

    def test_a_late_commit_below_what_is_remembered_is_found(
        self, conn: Connection, other: Connection
    ) -> None:
        """What a look remembers is a hint: a transaction that was open may have an earlier time."""
        promoter = Promoter()
        with other.transaction():
            publish(other, "outbox", 1, deliver_in=10)
            publish(conn, "outbox", 1, deliver_in=20)
            shift(conn, 30)
            assert promoter.promote(conn) == 1
        while not promoter.promote(conn):  # as a sequencer that sleeps, and is told of it once
            assert promoter.wait_s(3600) < 3600, "it would sleep on"


class TestRoles:
    @pytest.mark.parametrize("grant", ["gapless_consumer", "gapless_operator"])
    def test_nobody_says_what_time_it_is(
        self, conn: Connection, topic: Topic, role: Any, grant: str
    ) -> None:
        """S1: whoever may sequence may promote what is due, and nothing else."""
        publish(conn, "outbox", 1, event_type="a", deliver_in=3600)
        publish(conn, "outbox", 1, event_type="b", deliver_in=10)
        early = "select gapless.move_due(9, '-infinity', 0, '2100-01-01')"
        with connect(role(grant), role="test") as one:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                one.execute(early.encode())
            shift(conn, 11)
            assert Promoter().promote_all(one) == 1


class TestWaitFor:
    def test_it_says_until_when(self, conn: Connection, topic: Topic) -> None:
        conn.execute("select gapless.create_group('g', 'outbox')")
        published = publish(conn, "outbox", 1, deliver_at=FAR)
        with pytest.raises(gapless.WaitError, match="it is scheduled until 2100-01-01") as caught:
            wait_for(conn, "g", published, 0)
        assert caught.value.state == "scheduled"

    def test_what_a_handler_scheduled_is_waited_for_in_a_chain(
        self, conn: Connection, topic: Topic, dsn: str
    ) -> None:
        """I10: a real handler that publishes for later, and says what it came of."""

        @gapless.handler(topic="outbox", group="a")
        def remind(unit: gapless.Unit, conn: Connection) -> None:
            publish(conn, "others", len(unit), deliver_in=HOUR)

        ensure_topic(conn, "others", partitions=1)
        conn.execute("select gapless.create_group('b', 'others')")
        published = publish(conn, "outbox", 1, key="k")
        assert drain(dsn, remind).units == 1
        assert _chain(conn, published) == ("scheduled", "b")
        shift(conn, HOUR)
        assert len(_turn(conn)) == 2
        assert _chain(conn, published) == ("pending", "b")
        row = conn.execute(
            "select cause, correlation from gapless.outbox_message_t where topic_id <> 1"
        ).fetchone()
        assert row is not None
        assert row[0].startswith("a/outbox/")
        assert row[1] == published


def _chain(conn: Connection, published: UUID) -> tuple[Any, ...] | None:
    return conn.execute(
        "select state, group_id from gapless.chain_state(array['a', 'b'], %s)", [published]
    ).fetchone()
