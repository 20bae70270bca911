"""tail: in the order of the offsets, as it comes, and harmless on a terminal."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterable
from itertools import islice

import psycopg
import pytest

from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.tail import Tail
from gapless.log.topics import Topic, ensure_topic


@pytest.fixture
def orders(conn: psycopg.Connection) -> Topic:
    return ensure_topic(conn, "orders", partitions=4)


@pytest.fixture
def filled(conn: psycopg.Connection, orders: Topic) -> Topic:
    """1000 events of 25 keys, sequenced in ten runs."""
    for run in range(10):
        numbers = range(run * 100, run * 100 + 100)
        publish(conn, "orders", [NewEvent(payload=n, key=f"k{n % 25}") for n in numbers])
        sequence(conn)
    return orders


def entries(done) -> list[dict]:
    assert (done.code, done.err) == (0, "")
    return [json.loads(line) for line in done.lines]


def assert_in_order(seen: Iterable[dict]) -> None:
    last: dict[int, int] = {}
    for entry in seen:
        partition, offset = entry["partition"], entry["offset"]
        assert offset == last.get(partition, offset - 1) + 1
        last[partition] = offset


def test_all_of_it(gapless, filled) -> None:
    seen = entries(gapless("tail", "orders", "--from", "earliest", "--json"))
    assert_in_order(seen)
    assert sorted(entry["payload"] for entry in seen) == list(range(1000))
    assert {entry["offset"] for entry in seen if entry["partition"] == 0} >= {1, 2, 3}


@pytest.mark.long
def test_the_newest(gapless, filled) -> None:
    assert [e["payload"] for e in entries(gapless("tail", "orders", "--json"))] == [
        *range(990, 1000)
    ]
    seen = entries(gapless("tail", "orders", "-n", "250", "--json"))
    assert [entry["payload"] for entry in seen] == [*range(750, 1000)]
    assert_in_order(seen)
    assert entries(gapless("tail", "orders", "-n", "0", "--json")) == []


@pytest.mark.long
def test_some_of_it(gapless, filled) -> None:
    seen = entries(
        gapless("tail", "orders", "--json", "--partition", "1", "--from", "5", "-n", "3")
    )
    assert [(e["partition"], e["offset"]) for e in seen] == [(1, 5), (1, 6), (1, 7)]
    seen = entries(gapless("tail", "orders", "--json", "--key", "k7", "-n", "3"))
    assert [entry["payload"] for entry in seen] == [932, 957, 982]
    seen = entries(gapless("tail", "orders", "--json", "--key", "k7", "--from", "earliest"))
    assert [entry["payload"] for entry in seen] == [*range(7, 1000, 25)]
    assert entries(gapless("tail", "orders", "--json", "--from", "latest")) == []
    assert entries(gapless("tail", "orders", "--json", "--key", "nobody", "-n", "3")) == []


def test_a_key_in_another_partition(gapless, filled, conn) -> None:
    row = conn.execute("select gapless.partition_of('k7', 4)").fetchone()
    other = (row[0] + 1) % 4
    complaint = gapless("tail", "orders", "--key", "k7", "--partition", str(other)).complaint()
    assert f"key 'k7' is in partition {row[0]}, not in {other}" in complaint


def test_a_line_of_json_has_it_all(gapless, conn, orders) -> None:
    payload = b'{"a": 1.10,\n "a": 1e400, "c": "\\u0000\xc2\x9b"}'
    transaction = publish(
        conn, "orders", payload, key="k", event_type="t", headers={"h": [1]}, user_id="u"
    )
    line = gapless("tail", "orders", "--json").out
    assert line.count("\n") == 1
    assert '"payload": {"a": 1.10,  "a": 1e400, "c": "\\u0000\\u009b"}}' in line
    entry = json.loads(line)
    assert entry["transaction_id"] == str(transaction)
    assert (entry["topic"], entry["offset"], entry["key"]) == ("orders", 1, "k")
    assert (entry["headers"], entry["host_id"], entry["user_id"]) == ({"h": [1]}, None, "u")


def test_nothing_in_an_event_drives_the_terminal(gapless, conn, orders) -> None:
    evil = "\x1b]0;title\x07\x1b[2J\r\x9b31m\u202e\n"
    publish(conn, "orders", evil, key=evil, event_type=evil)
    for words in ((), ("--json",), ("--full",)):
        out = gapless("tail", "orders", *words).out
        assert out.count("\n") == 1
        assert not {"\x1b", "\x07", "\r", "\x9b", "\u202e"} & set(out)


@pytest.mark.long
def test_lines_are_cut_to_the_terminal(conn, dsn: str, orders) -> None:
    publish(conn, "orders", "é" * 5000)
    publish(conn, "orders", "漢" * 5000)
    cut = _on_terminal(dsn, "tail", "orders")
    assert [len(line) for line in cut[:1]] == [80]
    assert all(line.endswith("...") for line in cut)
    assert len(_on_terminal(dsn, "tail", "orders", "--full")[0]) > 5000


def test_follow_shows_what_comes(gapless, conn, orders, start) -> None:
    """Nobody is the sequencer: tail does its work, and leaves it to one that comes."""
    process = start("tail", "orders", "-f", "--json")
    for n in range(3):
        publish(conn, "orders", n)
        assert json.loads(process.stdout.readline())["payload"] == n
    conn.execute("select pg_advisory_lock(7427001, 3)")
    publish(conn, "orders", 3)
    give_up_to_a_sequencer(conn)
    assert json.loads(process.stdout.readline())["payload"] == 3


def give_up_to_a_sequencer(conn: psycopg.Connection) -> None:
    """Sequence in place of an active sequencer; 0 if tail was just faster."""
    assert sequence(conn) in {0, 1}


@pytest.mark.long
def test_follow_misses_nothing_of_a_fast_log(conn, dsn: str, orders, start) -> None:
    process = start("tail", "orders", "-f", "-n", "0", "--json")
    wait_for_listen(conn)
    for run in range(50):
        publish(conn, "orders", [NewEvent(payload=(run, n), key=str(n)) for n in range(20)])
        sequence(conn)
    seen = [json.loads(process.stdout.readline()) for _ in range(1000)]
    assert_in_order(seen)
    assert sorted(entry["payload"] for entry in seen) == [
        [r, n] for r in range(50) for n in range(20)
    ]


def wait_for_listen(conn: psycopg.Connection) -> None:
    """Until tail has looked once: it asks for the ends of partitions after it listens."""
    ends = (
        "select 1 from pg_stat_activity where application_name = 'gapless/tail' and query like %s"
    )
    while not conn.execute(ends, ["%last_offset%"]).fetchone():
        pass


@pytest.mark.long
def test_memory_is_bounded(conn, orders) -> None:
    """Slices get smaller while events are large."""
    for _ in range(12):
        publish(conn, "orders", "x" * 3_000_000, key="a")
    sequence(conn)
    tail = Tail(conn, orders, range(4))
    tail.start_at(1)
    assert len(list(tail.read())) == 12
    assert list(tail.read()) == []


@pytest.mark.long
def test_a_reader_that_stops_loses_nothing(conn, filled) -> None:
    """Merging looks ahead: what was not given out must come again."""
    tail = Tail(conn, filled, range(4))
    tail.start_at(1)
    seen = []
    while True:
        few = list(islice(tail.read(), 7))
        if not few:
            break
        seen += few
    assert sorted(int(entry.payload) for entry in seen) == list(range(1000))


def _on_terminal(dsn: str, *words: str) -> list[str]:
    leader, follower = pty.openpty()
    with os.fdopen(leader, "rb", buffering=0) as screen:
        process = subprocess.Popen(
            [sys.executable, "-m", "gapless", *words],
            stdout=follower,
            env={**os.environ, "GAPLESS_DSN": dsn, "COLUMNS": "80"},
        )
        os.close(follower)
        seen = b""
        try:
            while piece := screen.read(65536):
                seen += piece
        except OSError:  # Linux: the other end was closed
            pass
        assert process.wait(timeout=10) == 0
    return seen.decode().replace("\r\n", "\n").splitlines()
