"""pause, resume, seek: what they print, what they refuse, what status and doctor say of it."""

import re
import signal
import subprocess
from collections.abc import Callable

import psycopg
import pytest

from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic, require_topic
from support.group import owner
from support.servers import until


@pytest.fixture
def orders(conn: psycopg.Connection) -> None:
    """Ten events in one partition, and group billing at its beginning."""
    ensure_topic(conn, "orders", partitions=1)
    conn.execute("select gapless.create_group('billing', 'orders')")
    for n in range(10):
        publish(conn, "orders", n, key="a")
    sequence(conn)


def paused(conn: psycopg.Connection) -> int:
    row = conn.execute("select count(*) from gapless.group_pause").fetchone()
    assert row is not None
    return int(row[0])


def sessions(conn: psycopg.Connection) -> int:
    said = "select count(*) from pg_stat_activity where datname = current_database()"
    row = conn.execute(said).fetchone()
    assert row is not None
    return int(row[0])


def next_offset(conn: psycopg.Connection) -> int:
    row = conn.execute("select next_offset from gapless.consumer_offsets").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.long
def test_pause_and_resume(gapless, orders) -> None:
    done = gapless("pause", "billing", "--reason", "bad \x1b deploy")
    assert (done.code, done.err, done.out) == (0, "", "paused group billing\n")
    assert gapless("pause", "billing").out == "nothing to do: group billing is paused\n"
    row = gapless("status", "--json").json["partitions"][0]
    assert row["state"] == "paused"
    assert row["pause"].endswith(": bad \x1b deploy")
    assert row["paused_at"] is not None
    said = r"paused by \w+: bad \? deploy, for \d\S+: gapless resume billing"
    assert re.search(said, gapless("status").out)
    assert gapless("groups", "--json").json[0]["state"] == "Paused"
    found = [line for line in gapless("doctor").out.splitlines() if "paused" in line]
    assert len(found) == 1
    assert "1 partition of group billing paused by" in found[0]
    assert gapless("resume", "billing").out == "resumed group billing\n"
    assert gapless("resume", "billing").out == "nothing to do: group billing is not paused\n"
    assert gapless("status", "--json").json["partitions"][0]["state"] == "unserved"


@pytest.mark.long
def test_a_seek_is_a_dry_run_first(gapless, orders, conn) -> None:
    done = gapless("seek", "billing", "--offset", "7")
    assert done.lines[0].split() == (
        "TOPIC PARTITION CURRENT-OFFSET NEW-OFFSET AGAIN SKIPPED DEAD-LETTERS WORKER".split()
    )
    assert done.lines[1].split() == "orders 0 1 7 0 6 0 no".split()
    assert done.err == (
        "gapless: nothing was changed: 0 events would be handled again, 6 skipped; --yes does it\n"
    )
    assert next_offset(conn) == 1
    done = gapless("seek", "billing", "--offset", "7", "--yes", "--json")
    assert done.json == [
        {
            "topic": "orders",
            "partition": 0,
            "current_offset": 1,
            "new_offset": 7,
            "again": 0,
            "skipped": 6,
            "dead_letters": 0,
            "worker": False,
        }
    ]
    assert next_offset(conn) == 7
    assert (
        "6 events to be handled again, 0 skipped"
        in gapless("seek", "billing", "--earliest", "--apply").err
    )


@pytest.mark.long
def test_a_worker_at_work(gapless, orders, conn, dsn) -> None:
    """Refused; with --pause too, when it does not let go in time: then all is as before."""
    with owner(dsn, "billing", require_topic(conn, "orders")):
        done = gapless("seek", "billing", "--latest")
        assert done.lines[1].endswith("yes")
        assert "(with --pause: workers are at it)" in done.err
        assert gapless("seek", "billing", "--latest", "--yes").complaint() == (
            "a worker owns billing/orders/0: pause the group first (--pause), or stop its supervisors"
        )
        done = gapless("seek", "billing", "--latest", "--yes", "--pause", "--timeout", "1")
        assert done.code == 1
        assert "nothing was moved; the group continues as it was" in done.err
        assert "a worker has not let go within 1 s: nothing was changed" in done.err
        assert (next_offset(conn), paused(conn)) == (1, 0)
    done = gapless("seek", "billing", "--latest", "--yes", "--pause")
    assert (done.code, next_offset(conn), paused(conn)) == (0, 11, 0)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(
    orders, conn, dsn, start: Callable[..., subprocess.Popen[str]], number: signal.Signals
) -> None:
    with owner(dsn, "billing", require_topic(conn, "orders")):
        conn.execute("select gapless.pause('billing', reason => 'by hand')")
        process = start("seek", "billing", "--latest", "--yes", "--pause")
        assert until(lambda: paused(conn) == 2)
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "nothing was moved; the group continues as it was" in err
    assert (next_offset(conn), paused(conn)) == (1, 1)


@pytest.mark.long
def test_killed(gapless, orders, conn, dsn, start: Callable[..., subprocess.Popen[str]]) -> None:
    """It leaves the pause, and says so where people look; nothing moved; resume ends it."""
    with owner(dsn, "billing", require_topic(conn, "orders")):
        before = sessions(conn)
        process = start("seek", "billing", "--latest", "--yes", "--pause")
        assert until(lambda: paused(conn) == 1)
        process.kill()
        process.wait()
        # The server ends a statement of a client that died: as long as the worker is at it.
        assert until(lambda: sessions(conn) == before)
    assert next_offset(conn) == 1
    assert "gapless seek --pause" in gapless("status", "--json").json["partitions"][0]["pause"]
    assert gapless("resume", "billing").out == "resumed group billing\n"
    assert paused(conn) == 0


@pytest.mark.long
def test_a_consumer_may_not(gapless, orders, role: Callable[..., str]) -> None:
    """Only operators pause, seek and redrive; the complaint names the grant."""
    consumer, operator = role("gapless_consumer"), role("gapless_operator")
    for words in (
        ("pause", "billing"),
        ("resume", "billing"),
        ("seek", "billing", "--latest", "--yes"),
        ("groups", "remove", "billing", "--yes"),
    ):
        assert "grant it gapless_operator" in gapless(*words, GAPLESS_DSN=consumer).complaint()
    assert gapless("seek", "billing", "--latest", GAPLESS_DSN=consumer).code == 0
    assert gapless("pause", "billing", GAPLESS_DSN=operator).code == 0
    assert gapless("seek", "billing", "--latest", "--yes", GAPLESS_DSN=operator).code == 0
