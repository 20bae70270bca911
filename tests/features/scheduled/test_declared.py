"""Schedules that an application declares: made known before it works, and told of where that is a change."""

import logging
from collections.abc import Callable
from dataclasses import replace

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.errors import UsageError
from gapless.features.scheduled.schedule_ops import list_schedules
from gapless.features.scheduled.schedules import TOPIC, Schedule
from gapless.log.topics import Topic, find_topic

HOURLY = Schedule(name="hourly", topic="outbox", cron="0 * * * *")
DAILY = Schedule(name="daily", topic="outbox", cron="@daily")


def apply_schedules(conn: Connection, schedules: list[Schedule]) -> list[str]:
    """Make them known, in their order; return the names of those that were changed."""
    return [each.name for each in schedules if each.make_known(conn)]


def test_what_is_as_declared_already_is_not_told_of(
    conn: Connection, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gapless")
    assert apply_schedules(conn, [HOURLY]) == ["hourly"]
    assert apply_schedules(conn, [HOURLY, DAILY]) == ["daily"]
    assert apply_schedules(conn, [HOURLY, DAILY]) == []
    assert apply_schedules(conn, [replace(HOURLY, cron="@hourly", zone="Asia/Tokyo")]) == ["hourly"]
    assert caplog.messages == [
        f"supervisor: schedule {name} is as declared now" for name in ("hourly", "daily", "hourly")
    ]
    assert [each.name for each in list_schedules(conn)] == ["daily", "hourly"]


def test_the_topic_of_scheduled_functions_is_made_where_it_is_wanted(
    conn: Connection, topic: Topic
) -> None:
    apply_schedules(conn, [HOURLY])
    assert find_topic(conn, TOPIC) is None
    for name in ("one", "other"):
        assert apply_schedules(conn, [replace(HOURLY, name=name, topic=TOPIC)]) == [name]
    made = find_topic(conn, TOPIC)
    assert made is not None
    assert made.partitions == 1


def test_who_may_not_change_one_needs_no_right_where_it_is_as_declared(
    conn: Connection, topic: Topic, role: Callable[..., str]
) -> None:
    apply_schedules(conn, [HOURLY])
    with connect(role("gapless_consumer"), role="test") as worker:
        assert apply_schedules(worker, [HOURLY]) == []
        with pytest.raises(UsageError, match='"daily" is not in the database as it is declared'):
            apply_schedules(worker, [HOURLY, DAILY])
