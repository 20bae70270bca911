"""Schedules: one event a (schedule, due time), whoever asks, however the clock goes."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.errors import UsageError
from gapless.features.scheduled.later import Promoter
from gapless.features.scheduled.schedule_ops import (
    list_schedules,
    pause_schedule,
    remove_schedule,
    resume_schedule,
    run_schedule,
    show_schedule,
)
from gapless.features.scheduled.schedules import Schedule, add_schedule, apply_schedule
from gapless.log.topics import Topic
from support.clock import shift, stop_at


@pytest.fixture
def other(dsn: str, topic: Topic) -> Iterator[Connection[Any]]:
    with connect(dsn, role="test") as made:
        yield made


def _add(conn: Connection, **fields: Any) -> datetime:
    return add_schedule(conn, Schedule(**{"name": "s", "topic": "outbox", **fields}))


def _dues(conn: Connection) -> list[str]:
    """The due times of what was published, in that order, in UTC."""
    rows = conn.execute(
        "select headers ->> 'gapless-due' from gapless.outbox_message_t order by id"
    ).fetchall()
    return [row[0][:19] for row in rows]


def _at(conn: Connection, moment: str) -> list[str]:
    """Let it be that time, and promote; return all that was ever due."""
    stop_at(conn, moment)
    Promoter().promote_all(conn)
    return _dues(conn)


class TestFiring:
    def test_it_comes_when_it_is_due(self, conn: Connection, topic: Topic) -> None:
        stop_at(conn, "2026-05-01 12:00Z")
        assert _add(conn, cron="0 3 * * *") == datetime(2026, 5, 2, 3, tzinfo=UTC)
        assert _at(conn, "2026-05-02 02:59:59Z") == []
        assert _at(conn, "2026-05-02 03:00Z") == ["2026-05-02T03:00:00"]
        assert _at(conn, "2026-05-02 04:00Z") == ["2026-05-02T03:00:00"]
        assert len(_at(conn, "2026-05-03 03:00Z")) == 2

    def test_the_event_says_what_it_is(self, conn: Connection, topic: Topic) -> None:
        stop_at(conn, "2026-05-01 12:00Z")
        _add(conn, name="a", cron="@daily")
        _add(conn, name="b", cron="@daily", payload='{"n": 1}', key="k", event_type="t")
        _at(conn, "2026-05-02 00:00Z")
        rows = conn.execute(
            "select key, event_type, payload, headers ->> 'gapless-schedule'"
            " from gapless.outbox_message_t order by 4"
        ).fetchall()
        due = "2026-05-02T00:00:00.000000Z"
        assert rows == [
            (None, "a", {"schedule": "a", "due": due}, "a"),
            ("k", "t", {"n": 1}, "b"),
        ]

    def test_one_in_the_hand_of_somebody_is_passed(
        self, conn: Connection, other: Connection
    ) -> None:
        """It is due all the time, and nobody loops over that."""
        _add(conn, every="1 s")
        shift(conn, 10)
        promoter = Promoter()
        with other.transaction(force_rollback=True):
            other.execute("select gapless.pause_schedule('s')")
            assert Promoter().promote_all(conn) == 0
            assert promoter.promote(conn) == 0
            assert not promoter.is_due()
        assert Promoter().promote_all(conn) == 1

    def test_a_rollback_is_made_up_for(self, conn: Connection, topic: Topic) -> None:
        stop_at(conn, "2026-05-01 12:00Z")
        _add(conn, cron="@daily")
        stop_at(conn, "2026-05-02 00:00Z")
        with conn.transaction(force_rollback=True):
            conn.execute("select gapless.promote()")
        Promoter().promote_all(conn)
        assert len(_dues(conn)) == 1

    def test_a_clock_that_goes_back_publishes_nothing_again(
        self, conn: Connection, topic: Topic
    ) -> None:
        stop_at(conn, "2026-05-01 12:00Z")
        _add(conn, cron="@hourly")
        assert len(_at(conn, "2026-05-01 13:00Z")) == 1
        assert len(_at(conn, "2026-05-01 12:00Z")) == 1
        assert len(_at(conn, "2026-05-01 13:00Z")) == 1
        stop_at(conn, "2026-05-01 12:30Z")
        pause_schedule(conn, "s")
        resume_schedule(conn, "s")
        _add(conn, cron="0 * * * *", missed="all")
        assert len(_at(conn, "2026-05-01 13:30Z")) == 1
        assert len(_at(conn, "2026-05-01 14:00Z")) == 2

    @pytest.mark.parametrize("late_s", [3, 400], ids=["a late turn", "a jump"])
    def test_nor_of_what_came_before_some_was_missed(
        self, conn: Connection, topic: Topic, late_s: int
    ) -> None:
        """Due times before a gap are known as well: none of them has a second event."""
        begin = datetime(2026, 5, 1, 12, tzinfo=UTC)
        stop_at(conn, begin.isoformat())
        _add(conn, every="1 s")
        for second in [1, 2, 2 + late_s, 1, 2, 3, 4, 5]:
            found = _at(conn, (begin + timedelta(seconds=second)).isoformat())
        assert len(found) == len(set(found))
        assert len(found) == (3 if late_s == 3 else 6)


class TestMissed:
    @pytest.mark.parametrize(
        ("missed", "expected"),
        [
            ("once", ["2026-05-01T16:00:00"]),
            ("all", [f"2026-05-01T{hour}:00:00" for hour in (13, 14, 15, 16)]),
            ("skip", []),
        ],
    )
    def test_after_an_outage(
        self, conn: Connection, topic: Topic, missed: str, expected: list[str]
    ) -> None:
        stop_at(conn, "2026-05-01 12:00Z")
        _add(conn, cron="@hourly", missed=missed)
        assert _at(conn, "2026-05-01 16:30Z") == expected
        assert _at(conn, "2026-05-01 17:00Z") == [*expected, "2026-05-01T17:00:00"]

    @pytest.mark.parametrize("rhythm", [{"cron": "*/5 3 * * *"}, {"every": "1 second"}])
    def test_a_year_costs_no_more_than_an_hour(
        self, conn: Connection, topic: Topic, rhythm: dict[str, str]
    ) -> None:
        stop_at(conn, "2026-05-01 12:00Z")
        _add(conn, **rhythm)
        conn.execute("set statement_timeout = '20 s'")
        (due,) = _at(conn, "2027-05-01 03:55:30Z")
        assert due == ("2027-05-01T03:55:00" if "cron" in rhythm else "2027-05-01T03:55:30")


class TestByHand:
    def test_pause_and_resume(self, conn: Connection, topic: Topic) -> None:
        stop_at(conn, "2026-05-01 12:00Z")
        _add(conn, cron="@hourly")
        assert pause_schedule(conn, "s")
        assert not pause_schedule(conn, "s")
        assert show_schedule(conn, "s").paused
        assert _at(conn, "2026-05-01 15:30Z") == []
        assert resume_schedule(conn, "s")
        assert not resume_schedule(conn, "s")
        assert _at(conn, "2026-05-01 15:31Z") == [], "what passed in the pause is not made up for"
        assert _at(conn, "2026-05-01 16:00Z") == ["2026-05-01T16:00:00"]

    def test_run_now_beside_its_due_times(self, conn: Connection, topic: Topic) -> None:
        stop_at(conn, "2026-05-01 12:00Z")
        _add(conn, cron="@hourly")
        assert run_schedule(conn, "s")
        assert _at(conn, "2026-05-01 13:00Z") == ["2026-05-01T12:00:00", "2026-05-01T13:00:00"]

    def test_remove(self, conn: Connection, topic: Topic) -> None:
        stop_at(conn, "2026-05-01 12:00Z")
        _add(conn, cron="@hourly")
        assert remove_schedule(conn, "s")
        assert not remove_schedule(conn, "s")
        assert _at(conn, "2026-05-01 15:30Z") == []
        assert list_schedules(conn) == []

    def test_to_say_the_same_again_changes_nothing(self, conn: Connection, topic: Topic) -> None:
        stop_at(conn, "2026-05-01 12:00Z")
        schedule = Schedule(name="s", topic="outbox", every="1 hour", payload='{"a": 1}')
        assert apply_schedule(conn, schedule)
        stop_at(conn, "2026-05-01 12:30Z")
        assert not apply_schedule(conn, schedule)
        add_schedule(conn, schedule)
        assert _at(conn, "2026-05-01 13:00Z") == ["2026-05-01T13:00:00"]


class TestInterval:
    @pytest.mark.parametrize(
        ("every", "zone", "start", "dues"),
        [
            ("1 month", "UTC", "2026-01-31T00:00Z", ["2026-02-28", "2026-03-31", "2026-04-30"]),
            ("36 hours", "UTC", "2026-01-01T00:00Z", ["2026-01-02 12", "2026-01-04 00"]),
            # The clock is put forward on 29 March: a day there is 23 hours long.
            ("1 day", "Europe/Berlin", "2026-03-28T08:00Z", ["2026-03-29 07", "2026-03-30 07"]),
            ("24 hours", "Europe/Berlin", "2026-03-28T08:00Z", ["2026-03-29 08", "2026-03-30 08"]),
        ],
    )
    def test_each_is_counted_from_the_first(
        self, conn: Connection, every: str, zone: str, start: str, dues: list[str]
    ) -> None:
        after = start
        for due in dues:
            row = conn.execute(
                "select gapless.interval_next(%s::text::interval, %s, %s, %s)",
                [every, start, after, zone],
            ).fetchone()
            assert row is not None
            assert str(row[0].astimezone(UTC)).startswith(due)
            after = row[0]


class TestBadInput:
    @pytest.mark.writes_nothing
    @pytest.mark.parametrize(
        ("fields", "says"),
        [
            ({"cron": "@daily", "zone": "Europe/Atlantis"}, "no time zone \"Europe/Atlantis\""),
            ({"cron": "@daily", "zone": "XYZ5"}, "there is no time zone \"XYZ5\""),
            ({"every": "-1 hour"}, "is no rhythm"),
            ({"every": "1 month -40 days"}, "is no rhythm"),
            ({"every": "2 months -40 days"}, "is no rhythm"),
            ({"every": "-1 month 40 days"}, "is no rhythm"),
            ({"every": "1 day -1 hour"}, "is no rhythm"),
            ({"every": "2000 years"}, "is no rhythm"),
            ({"every": "1 s", "starts_at": "1969-01-01T00:00Z"}, "is no time to begin at"),
        ],
    )  # fmt: skip
    def test_one_sentence_and_nothing_is_changed(
        self, conn: Connection, topic: Topic, fields: dict[str, Any], says: str
    ) -> None:
        with pytest.raises(UsageError) as caught:
            _add(conn, **fields)
        assert says in str(caught.value)
        assert "\n" not in str(caught.value)
        assert list_schedules(conn) == []

    def test_one_that_cannot_go_on_stops_alone_and_says_why(
        self, conn: Connection, topic: Topic
    ) -> None:
        stop_at(conn, "2026-05-01 12:00Z")
        _add(conn, name="bad", cron="@hourly")
        _add(conn, name="good", cron="@hourly")
        conn.execute("update gapless.schedule set zone = 'Gone/Away' where name = 'bad'")
        assert len(_at(conn, "2026-05-01 13:00Z")) == 2, "what was due is published"
        bad = show_schedule(conn, "bad")
        assert bad.next_due is None
        assert bad.trouble is not None
        assert "Gone/Away" in bad.trouble
        assert len(_at(conn, "2026-05-01 14:00Z")) == 3


class TestRoles:
    @pytest.mark.parametrize("grant", ["gapless_producer", "gapless_consumer"])
    def test_schedules_are_an_operators(
        self, conn: Connection, topic: Topic, role: Any, grant: str
    ) -> None:
        with connect(role(grant), role="test") as one:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                _add(one, cron="@daily")
        with connect(role("gapless_operator"), role="test") as operator:
            assert _add(operator, cron="@daily")


def test_what_is_due_is_looked_for_without_an_xid(conn: Connection, topic: Topic) -> None:
    _add(conn, cron="@daily")
    with conn.transaction():
        conn.execute("select gapless.promote()")
        assert conn.execute("select pg_current_xact_id_if_assigned()").fetchone() == (None,)
