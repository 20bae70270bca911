"""What stands in the way is named in the log, once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from gapless.lease.foreign_locks import end_foreign_locks
from support.fleet import Fleet, until


@pytest.mark.long
def test_events_without_a_topic(role: Callable[..., str], fleet: Fleet) -> None:
    """The sequencer says so, at its start and with the chunks it makes."""
    with psycopg.connect(role("gapless_producer"), autocommit=True) as producer:
        producer.execute(
            "insert into gapless.outbox_message_t (topic_id, payload) values (77, '1')"
        )
    fleet.value("select gapless.sequence_events()")
    a = fleet.start("a")
    until(lambda: a.logged("1 events are of topic ids that nobody made"), "said", within=a.log)


def test_a_squatter_that_cannot_be_ended(role: Callable[..., str], fleet: Fleet) -> None:
    """The schema's owner is no superuser here, and may not end a superuser's session."""
    dsn = role("gapless_consumer")
    owner = conninfo_to_dict(dsn)["user"]
    fleet.conn.execute(f"alter function gapless.end_foreign_locks() owner to {owner}".encode())
    with psycopg.connect(make_conninfo(role()), autocommit=True) as stranger:
        stranger.execute("select pg_advisory_lock(7427001, 2)")
        a = fleet.start("a")
        fleet.until_owners(a=4)
        said = f"pid {stranger.info.backend_pid} of role"
        until(lambda: a.logged(said), "said", within=a.log)
        fleet.publish({}, {})
        fleet.until_handled()
        assert a.log().count(said) <= 2, "once by the supervisor, once by its sequencer"
        assert f"end it with select pg_terminate_backend({stranger.info.backend_pid})" in a.log()
    fleet.conn.execute("alter function gapless.end_foreign_locks() owner to current_user")


def test_one_that_was_ended_is_told_of_each_time_and_another_once(
    role: Callable[..., str], conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """The schema's owner may end sessions of one role, and not of the other."""
    owner_dsn, goes_dsn, stays_dsn = role("gapless_consumer"), role(), role()
    owner, goes = (conninfo_to_dict(each)["user"] for each in (owner_dsn, goes_dsn))
    conn.execute(f"alter function gapless.end_foreign_locks() owner to {owner}".encode())
    conn.execute(f"grant {goes} to {owner}".encode())
    known: set[int] = set()
    with _squats(stays_dsn) as stays:
        pid = stays.info.backend_pid
        for levels in (["ERROR", "WARNING"], ["WARNING"]):
            with _squats(goes_dsn):
                assert _levels(conn, known, caplog) == levels
            assert known == {pid}
            until(lambda: _squatters(conn) == 1, "it is gone")
        stays.execute("select pg_advisory_unlock_all()")
        assert _levels(conn, known, caplog) == []
        assert known == set()
        stays.execute(SQUAT)
        assert _levels(conn, known, caplog) == ["ERROR"], "it is back"
    conn.execute("alter function gapless.end_foreign_locks() owner to current_user")


SQUAT = "select pg_advisory_lock_shared(7427003, 1)"


@contextmanager
def _squats(dsn: str) -> Iterator[Connection]:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(SQUAT)
        yield conn


def _levels(conn: Connection, known: set[int], caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.clear()
    end_foreign_locks(conn, known)
    return sorted(each.levelname for each in caplog.records)


def _squatters(conn: Connection) -> int:
    row = conn.execute("select count(*) from gapless.foreign_locks").fetchone()
    assert row is not None
    return int(row[0])
