"""replay: a range once, beside all groups; interrupted, killed, shared, continued, removed."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic
from support.servers import until

APP = f"{Path(__file__).with_name('replay_app.py')}:bill"
OFFSETS = "select array_agg(c_offset order by n) from handled where partition_id = %s"


@pytest.fixture
def orders(conn: psycopg.Connection) -> list[str]:
    """Group billing has passed ten events in each of two partitions; returns a key of each."""
    ensure_topic(conn, "orders", partitions=2)
    conn.execute("create table handled (n serial, partition_id int, c_offset bigint, pid int)")
    keys: dict[int, str] = {}
    for n in range(20):
        row = conn.execute("select gapless.partition_of(%s, 2)", [f"k{n}"]).fetchone()
        assert row is not None
        keys.setdefault(int(row[0]), f"k{n}")
    for n in range(10):
        publish(conn, "orders", [NewEvent(payload=n, key=keys[p]) for p in (0, 1)])
    sequence(conn)
    conn.execute("select gapless.create_group('billing', 'orders', 'latest')")
    return [keys[0], keys[1]]


def more(conn: psycopg.Connection, key: str, payload: str, count: int) -> None:
    for _ in range(count):
        publish(conn, "orders", payload, key=key)
    sequence(conn)


def value(conn: psycopg.Connection, statement: str, *params: object) -> object:
    row = conn.execute(statement, params).fetchone()
    return None if row is None else row[0]


def billing(conn: psycopg.Connection) -> list[tuple[int]]:
    return conn.execute(
        "select next_offset from gapless.consumer_offsets where group_id = 'billing'"
    ).fetchall()


def test_all_of_a_topic(gapless, orders, conn) -> None:
    done = gapless("replay", APP, "--yes")
    assert (done.code, done.out) == (0, "replayed 20 events: all handled\n"), done.err
    assert value(conn, OFFSETS, 0) == value(conn, OFFSETS, 1) == list(range(1, 11))
    assert billing(conn) == [(11,), (11,)]
    assert value(conn, "select count(*) from gapless.consumer_group") == 1


@pytest.mark.parametrize(
    ("words", "offsets"),
    [
        (("--from", "3", "--to", "6"), [3, 4, 5]),
        (("--from", "9"), [9, 10]),
        (("--to", "2"), [1]),
        (("--from", "latest"), None),
        (("--to", "2020-01-01"), None),
        (("--from", "2020-01-01"), list(range(1, 11))),
    ],
)
def test_a_range(gapless, orders, conn, words, offsets) -> None:
    done = gapless("replay", APP, "--partition", "0", *words, "--json", "--yes")
    assert done.json["events"] == done.json["done"] == len(offsets or [])
    assert value(conn, OFFSETS, 0) == offsets
    assert value(conn, OFFSETS, 1) is None


def test_what_fails_is_kept(gapless, orders, conn) -> None:
    more(conn, orders[0], "refuse", 2)
    done = gapless("replay", APP, "--name", "again", "--batch-size", "3", "--yes")
    assert done.out == (
        "replayed 22 events: 20 handled, 2 in 2 dead letters: gapless dlq list --group again; "
        "then gapless replay --remove again\n"
    )
    assert [row["name"] for row in gapless("replay", "--list", "--json").json] == ["again"]
    assert {row["state"] for row in gapless("dlq", "--json").json} == {"dead"}
    assert gapless("status", "--json").json["groups"][0]["group"] == "billing"
    assert [row["group"] for row in gapless("groups", "--json").json] == ["billing"]
    assert gapless("replay", APP, "--name", "again").complaint() == (
        'there is a group "again" already: choose another name, or go on with it (--continue)'
    )
    assert (
        gapless("replay", "--remove", "again").out == "removed replay again, and 2 dead letters\n"
    )
    assert value(conn, "select count(*) from gapless.dead_letter_event") == 0
    assert gapless("replay", "--list").err == "gapless: no replay is unfinished\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_and_continued(
    gapless, orders, conn, start: Callable[..., subprocess.Popen[str]], number: signal.Signals
) -> None:
    """Each event once, whatever ended it; the count in the end is of all of it."""
    more(conn, orders[0], "slow", 60)
    process = start("replay", APP, "--name", "r", "--batch-size", "4", "--yes")
    assert until(lambda: value(conn, "select count(*) from handled") >= 20)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert number == signal.SIGKILL or "go on with gapless replay" in err
    row = gapless("replay", "--list", "--json").json[0]
    assert (row["events"], row["running"]) == (80, False)
    assert 10 <= row["done"] < 80
    done = gapless("replay", APP, "--continue", "r")
    assert done.out == "replayed 80 events: all handled\n", done.err
    assert value(conn, OFFSETS, 0) == list(range(1, 71))
    assert value(conn, OFFSETS, 1) == list(range(1, 11))


def test_two_share_the_partitions(
    gapless, orders, conn, start: Callable[..., subprocess.Popen[str]]
) -> None:
    for key in orders:
        more(conn, key, "slow", 100)
    one = start("replay", APP, "--name", "r", "--batch-size", "5", "--keep", "--yes")
    assert until(lambda: value(conn, "select count(*) from handled") >= 5)
    two = gapless("replay", APP, "--continue", "r", "--batch-size", "5", "--keep")
    out, err = one.communicate(timeout=60)
    assert (two.code, one.returncode) == (0, 0), two.err + err
    assert "replayed 220 events: all handled\n" in two.out + out
    assert value(conn, "select count(distinct pid) from handled") == 2
    for partition in (0, 1):
        assert value(conn, OFFSETS, partition) == list(range(1, 111))
    assert gapless("replay", APP, "--continue", "r").out == "replayed 220 events: all handled\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "which handler? gapless replay module:handler"),
        ((APP.removesuffix(":bill"),), "has several handlers: say which one of"),
        ((APP, "--topic", "nothing"), 'topic "nothing" does not exist'),
        ((APP, "--from", "99"), "offset 99 is beyond the end of orders/0: the next event gets"),
        ((APP, "--from", "soon"), "'soon' is not earliest, latest, an offset, or a time"),
        ((APP, "--from", "3000-01-01"), "is in the future"),
        ((APP, "--continue", "x"), 'there is no replay "x"'),
        (("--remove", "billing"), 'there is no replay "billing"'),
    ],
)
def test_bad_input_changes_nothing(gapless, orders, conn, words, complaint) -> None:
    assert complaint in gapless("replay", *words).complaint()
    assert value(conn, "select count(*) from gapless.consumer_group") == 1


@pytest.mark.parametrize(
    ("place", "lag"), [("earliest", 20), ("latest", 0), ("4", 14), ("2020-01-01T00:00Z", 20)]
)
def test_a_new_group_at_a_place(gapless, orders, conn, place, lag) -> None:
    done = gapless("groups", "create", "audit", "orders", "--start", place)
    assert done.out.startswith("created group audit of topic orders, from ")
    assert value(conn, "select sum(lag) from gapless.lag where group_id = 'audit'") == lag
    assert "1 topic" not in gapless("groups", "remove", "audit").err
    assert gapless("groups", "remove", "audit").err == (
        "gapless: nothing was changed: group audit of orders has 0 dead letters; --yes removes it\n"
    )
    assert gapless("groups", "remove", "audit", "--yes").code == 0
    assert 'there is no group "audit"' in gapless("groups", "remove", "audit", "--yes").complaint()


def test_a_new_group_beyond_the_end_is_not_made(gapless, orders, conn) -> None:
    complaint = gapless("groups", "create", "audit", "orders", "--start", "99").complaint()
    assert "beyond the end" in complaint
    assert value(conn, "select count(*) from gapless.consumer_group") == 1
