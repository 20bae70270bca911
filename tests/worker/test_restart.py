"""The server goes away and comes back: all goes on by itself, nobody moves, nothing twice."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL

import psycopg
import pytest

from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.features.server.postgres.cluster import Cluster
from gapless.features.server.server import throwaway_cluster
from gapless.lease.member import Member, ServedTopic, Timing
from gapless.log.sequence import create_chunks
from gapless.log.topics import ensure_topic
from support.fleet import Fleet, Load, until
from support.lease_checks import assert_sound, record
from support.ledger import assert_exactly_once, entries
from support.long import long_but
from support.patience import patience

MEMBERS = "select array_agg(member_id order by member_id) from gapless.member"
# Long enough for a restart on a busy machine: nobody is to be taken for dead.
PATIENT = {"member_ttl_ms": 20_000, "heartbeat_ms": 300, "reconnect_grace_ms": 20_000}
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A server of this module's own, durable: it is going to be crashed."""
    with throwaway_cluster(DURABLE) as made:
        with connect(made.dsn(), role="test") as conn:
            migrate(conn)
            create_chunks(conn)
        yield made


@pytest.fixture(autouse=True)
def no_process_left() -> None:
    """Not here: a server that was restarted is a new child of ours. The fleet ends its own."""


@pytest.fixture
def fleet(cluster: Cluster, tmp_path: Path) -> Iterator[Fleet]:
    with psycopg.connect(cluster.dsn("postgres"), autocommit=True) as admin:
        admin.execute("drop database if exists test with (force)")
        admin.execute("create database test template gapless")
    made = Fleet(cluster.dsn("test"), connect(cluster.dsn("test"), role="test"), tmp_path)
    record(made.conn)
    try:
        yield made
    finally:
        made.close()
        made.conn.close()
        print(made.logs())  # noqa: T201
    assert_sound(made.dsn, by_hand=False)


@pytest.mark.long
@pytest.mark.parametrize("how", ["fast", "immediate", "kill -9 a backend"])
def test_everything_goes_on_after_a_restart(
    cluster: Cluster, fleet: Fleet, how: str, record_property: Callable[[str, object], None]
) -> None:
    fleet.start("a", **PATIENT)
    fleet.until_owners(a=4)
    fleet.start("b", **PATIENT)
    fleet.until_owners(a=2, b=2)
    members = fleet.value(MEMBERS)
    with Load(fleet) as load:
        load.go_on()
        take_down(cluster, fleet, how)
        up_s = time.monotonic()
        fleet.conn = until(lambda: try_connect(fleet.dsn), "the server is up")
        since = fleet.now()
        load.go_on()
        until(
            lambda: all(run[-1].at > since for run in entries(fleet.conn).values()),
            "every partition is worked on again",
            within=fleet.logs,
        )
        took_s = time.monotonic() - up_s
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    assert fleet.value(MEMBERS) == members, "nobody was evicted"
    assert fleet.owners() == {"a": 2, "b": 2}
    record_property("working_again_s", took_s)
    print(f"{how}: all work again {took_s:.2f} s after the server was up")  # noqa: T201
    assert took_s < patience(10)


@pytest.mark.long
def test_who_is_away_with_the_server_keeps_its_leases(cluster: Cluster, fleet: Fleet) -> None:
    """However long that takes: while the server is away nobody can beat, and nobody can take over."""
    a = fleet.start("a")
    fleet.until_owners(a=4)
    b = fleet.start("b")
    fleet.until_owners(a=2, b=2)
    fleet.publish()
    fleet.until_handled()
    members = fleet.value(MEMBERS)
    fleet.conn.close()
    cluster.stop("immediate")
    for each in (a, b):
        until(lambda: "cut off for longer than the ttl" in each.log(), "beyond its ttl")  # noqa: B023
    cluster.start()
    fleet.conn = until(lambda: try_connect(fleet.dsn), "the server is up")
    for partition in range(4):
        fleet.publish(partition=partition)
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    assert fleet.value(MEMBERS) == members, "nobody was evicted, nobody joined anew"
    assert fleet.owners() == {"a": 2, "b": 2}


@pytest.mark.parametrize("how", long_but(["immediate", "kill -9 a backend"], "immediate"))
def test_nobody_is_evicted_for_what_was_before_the_start(
    cluster: Cluster, fleet: Fleet, how: str
) -> None:
    """Suspected, and then the server ended: the first one who is back must not take all at once."""
    with joined(fleet, "first") as first, joined(fleet, "late") as late:
        fleet.conn.execute(
            "update gapless.member set expires_at = clock_timestamp() - interval '1 s',"
            " suspect_at = clock_timestamp() - interval '1 min'"
        )
        take_down(cluster, fleet, how, of="gapless/test")
    fleet.conn = until(lambda: try_connect(fleet.dsn), "the server is up")
    with connect(fleet.dsn, role="test") as conn, connect(fleet.dsn, role="test") as other:
        assert first.reattach(conn)
        assert first.evict() == 0, "it has its ttl to come back"
        assert late.reattach(other)
        assert first.evict() == 0, "it is back"
        other.close()
        until(first.watch, "its lock is free")
        assert first.evict() == 1, "who was back and is gone has no more time"


@pytest.mark.long
def test_who_does_not_come_back_is_evicted(cluster: Cluster, fleet: Fleet) -> None:
    with joined(fleet, "first") as first, joined(fleet, "gone"):
        fleet.conn.close()
        cluster.restart("immediate")
    fleet.conn = until(lambda: try_connect(fleet.dsn), "the server is up")
    with connect(fleet.dsn, role="test") as conn:
        assert first.reattach(conn)
        until(lambda: first.evict() == 1, "5 s have passed", timeout_s=30)


@contextmanager
def joined(fleet: Fleet, name: str) -> Iterator[Member]:
    """Join as a supervisor does, without a heartbeat of its own."""
    topic = ensure_topic(fleet.conn, "t", partitions=4)
    wanted = ServedTopic(group_id="g", topic="t", topic_id=topic.topic_id)
    timing = Timing(ttl_ms=1500, suspect_grace_ms=0, reconnect_grace_ms=0)
    with connect(fleet.dsn, role="test") as conn:
        yield Member(conn, [wanted], timing, name=name, capacity=None)


@pytest.mark.long
def test_restarts_are_nobodys_fault(cluster: Cluster, fleet: Fleet, tmp_path: Path) -> None:
    """A unit that is in its handler at each of many restarts is not taken for poison."""
    a = fleet.start("a", **PATIENT)
    fleet.until_owners(a=4)
    fleet.publish({"count": str(tmp_path / "begun"), "sleep_s": 0.7}, {})
    begun = tmp_path / "begun"
    for times in range(1, 6):
        until(
            lambda: begun.exists() and begun.stat().st_size >= times,  # noqa: B023
            f"in the handler for the {times}. time",
            within=a.log,
            timeout_s=30,
        )
        cluster.restart("immediate" if times % 2 else "fast")
    fleet.conn.close()
    fleet.conn = until(lambda: try_connect(fleet.dsn), "the server is up")
    fleet.until_handled()
    assert_exactly_once(fleet.conn)


def take_down(cluster: Cluster, fleet: Fleet, how: str, of: str = "gapless/worker%") -> None:
    if how != "kill -9 a backend":
        fleet.conn.close()
        cluster.restart("fast" if how == "fast" else "immediate")
        return
    pid = fleet.value(
        "select pid from pg_stat_activity where application_name like %s"
        " and pid <> pg_backend_pid() limit 1",
        of,
    )
    os.kill(pid, SIGKILL)
    until(lambda: not answers(fleet.conn), "the server has noticed")
    fleet.conn.close()


def answers(conn: psycopg.Connection) -> bool:
    try:
        conn.execute("select 1")
    except psycopg.Error:
        return False
    return True


def try_connect(dsn: str) -> psycopg.Connection | None:
    try:
        return psycopg.connect(dsn, autocommit=True)
    except psycopg.OperationalError:
        return None
