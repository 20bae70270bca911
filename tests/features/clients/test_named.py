"""Who keeps a group and is ended by nobody is named, within the ttl, with what ends it (I11)."""

import re
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import Connection

from features.clients.calls import GROUP, Client, Clients, refused
from gapless.ops.doctor.rounds import diagnose
from gapless.status import to_document
from gapless.status.look import snapshot
from gapless.status.problems import problems
from support.servers import until


def grow_old(clients: Clients, *, polled: bool = True) -> None:
    """Let all that happened so far, and a client's last poll, be an hour further back."""
    for what in (
        "outbox_message_t set created_ts = created_ts - interval '1 h'",
        "lease set acquired_ts = acquired_ts - interval '1 h'",
        "member set started_ts = started_ts - interval '1 h'",
    ):
        clients.conn.execute(f"update gapless.{what}".encode())
    if polled:
        clients.conn.execute("update gapless.member set polled_ts = polled_ts - interval '1 h'")


def named(conn: Connection) -> list[str]:
    return [each.name for each in snapshot(conn).obstacles]


@pytest.fixture
def beating(clients: Clients) -> Client:
    """A client that sends heartbeats alone, and events that have waited for longer than its ttl."""
    clients.publish("a", "b")
    one = clients.join("30 min", name="quiet")
    assert one.heartbeat().partitions == [0]
    grow_old(clients)
    return one


@pytest.mark.invariant("I11")
def test_a_client_that_only_beats_is_named_and_can_be_ended(
    beating: Client, clients: Clients, dsn: str
) -> None:
    look = snapshot(clients.conn)
    (said,) = [str(each) for each in problems(look) if "quiet" in each.problem]
    assert re.search(
        r'client "quiet" of billing/orders sends heartbeats but has not polled for \d+ s, '
        r"while events wait in partition 0: have it poll",
        said,
    )
    assert to_document(look)["obstacles"][0]["kind"] == "client"
    (finding,) = [each for each in diagnose(dsn, connect_timeout_s=5) if each.name == "obstacles"]
    assert (finding.level, "quiet" in finding.text) == ("FAIL", True)
    command = re.search(r"select gapless\.end_client\('[-0-9a-f]+'\)", finding.remedy)
    assert command is not None
    other = clients.join(name="other")
    other.poll()
    assert clients.next_offset() == 1
    clients.conn.execute(command.group().encode())
    assert (
        clients.one("select target::text from gapless.lease") == other.member_id
    )  # before it polls
    assert other.offsets() == [1, 2]
    with refused("GL006"):
        beating.heartbeat()
    assert named(clients.conn) == []
    assert clients.rows(command.group()) == [(False,)]
    (gone,) = snapshot(clients.conn).evictions
    assert gone.reason.startswith("ended by")


def test_a_client_that_polls_is_not_named(beating: Client, clients: Clients) -> None:
    assert named(clients.conn) == ["quiet"]
    assert beating.offsets() == [1, 2]
    beating.commit(0, 3)
    clients.publish("c")
    grow_old(clients, polled=False)
    assert named(clients.conn) == []


def test_a_client_that_has_something_in_hand_is_not_named(
    beating: Client, clients: Clients
) -> None:
    assert beating.offsets(max_events=1) == [1]
    grow_old(clients)
    assert named(clients.conn) == []
    beating.commit(0, 2)
    assert named(clients.conn) == ["quiet"]


def test_a_client_that_nothing_waits_for_is_not_named(beating: Client, clients: Clients) -> None:
    beating.poll()
    beating.commit(0, 3)
    grow_old(clients)
    assert named(clients.conn) == []
    clients.publish("c")  # it waits for less than the ttl
    assert named(clients.conn) == []


# The state of a client that only beats, and is in nobody's way.
HARMLESS = {
    "its group is paused": "select gapless.pause('billing', 'orders')",
    "its deadline has passed": (
        "update gapless.member set expires_at = clock_timestamp() - interval '1 s'"
    ),
    "what waits had waited for somebody else": "update gapless.lease set acquired_ts = now()",
    "it is a supervisor": "update gapless.member set kind = 'supervisor', token_digest = null",
}


@pytest.mark.parametrize("name", HARMLESS)
def test_one_that_is_in_nobody_s_way_is_not_named(
    beating: Client, clients: Clients, name: str
) -> None:
    clients.conn.execute(HARMLESS[name].encode())
    assert named(clients.conn) == []


def test_only_an_operator_ends_a_client(
    beating: Client, clients: Clients, role: Callable[..., str]
) -> None:
    with psycopg.connect(role("gapless_consumer"), autocommit=True) as conn:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("select gapless.end_client(%s)", [beating.member_id])
        assert named(conn) == ["quiet"]
    with psycopg.connect(role("gapless_operator"), autocommit=True) as conn:
        row = conn.execute("select gapless.end_client(%s)", [beating.member_id]).fetchone()
    assert row == (True,)


@pytest.fixture
def left(conn: Connection) -> Iterator[str]:
    """The name of a prepared transaction, which is gone afterwards."""
    gid = "left's"
    yield gid
    if conn.execute("select from pg_prepared_xacts where gid = %s", [gid]).fetchone():
        conn.execute("rollback prepared 'left''s'")


@pytest.mark.invariant("I11")
def test_a_commit_that_was_prepared_is_named_and_can_be_ended(
    clients: Clients, conn: Connection, dsn: str, left: str
) -> None:
    """A client's other locks end with its session; these do not (decision 36)."""
    clients.publish("a", "b")
    conn.execute("select gapless.create_group('bystander', 'orders')")
    one = clients.join()
    assert one.offsets() == [1, 2]
    with conn.transaction():
        one.commit(0, 2)
        conn.execute("prepare transaction 'left''s'")

    def is_named() -> bool:  # whoever uses two-phase commit as it is meant is not
        found = snapshot(conn).obstacles
        assert all(each.since_s > 2 for each in found)
        return [each.name for each in found] == [left]

    assert until(is_named)
    look = snapshot(conn)
    (said,) = [str(each) for each in problems(look) if "prepared transaction" in each.problem]
    assert re.search(r"'left''s' of role \S+ has held billing/orders/0 for \d+ s: rollback", said)
    (finding,) = [each for each in diagnose(dsn, connect_timeout_s=5) if each.name == "obstacles"]
    assert finding.level == "FAIL"
    command = finding.remedy.split(", or ")[0]
    assert command == "rollback prepared 'left''s'"
    conn.execute(command.encode())
    assert named(conn) == []
    assert one.offsets() == [1]  # what was handed out before comes again, alone


@pytest.mark.long
def test_what_a_producer_prepared_is_in_nobody_s_way(
    clients: Clients, conn: Connection, left: str
) -> None:
    """It keeps its own events back, and nobody else's: log/test_sequencer."""
    with conn.transaction():
        conn.execute("set local gapless.wake = off")
        conn.execute("select gapless.publish('orders', '{}')")
        conn.execute("select from gapless.consumer_offsets")  # it only looked at them
        conn.execute("prepare transaction 'left''s'")
    assert until(
        lambda: (
            conn.execute(
                "select clock_timestamp() - prepared > interval '2.5 s' from pg_prepared_xacts"
                " where gid = %s",
                [left],
            ).fetchone()
            == (True,)
        )
    )
    assert named(conn) == []


def test_a_group_with_clients_is_not_dropped_and_says_who_is_there(clients: Clients) -> None:
    one, two = clients.join(), clients.join()
    drop = "select gapless.drop_group(%s)"
    with pytest.raises(psycopg.Error, match='group "billing" has 2 clients: let them leave first'):
        clients.rows(drop, [GROUP])
    assert one.leave()
    with pytest.raises(psycopg.Error, match='group "billing" has 1 client: '):
        clients.rows(drop, [GROUP])
    clients.expire(two)
    assert clients.rows(drop, [GROUP]) == [(0,)]
    assert clients.one("select count(*) from gapless.member") == 0
