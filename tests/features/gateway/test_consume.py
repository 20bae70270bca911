"""GET events and streams: ranges that never change, streams that continue at any gateway."""

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from psycopg import Connection

from features.gateway.together import connected
from gapless.features.gateway import connection, stream
from gapless.features.gateway import feed as feed_module
from gapless.features.gateway.problem import Problem
from gapless.features.gateway.vector import read_vector, vector_text
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.ranges import bounds_of
from gapless.log.sequence import sequence
from gapless.log.topics import Topic
from support.fleet import until
from support.gateways import EVENTS, Client, Open, problem

STREAM = "/v1/topics/orders/stream"


class Reader:
    """A client of a stream, as an EventSource is one: it knows the last id."""

    def __init__(self) -> None:
        self.last_id = ""
        self.events: list[dict[str, Any]] = []

    def read(self, gateway: Client, events_max: int, **params: Any) -> None:
        """Connect with the last id, and take at most so many events."""
        headers = {"Last-Event-ID": self.last_id} if self.last_id else {}
        taken = 0
        with gateway.client.stream("GET", STREAM, params=params, headers=headers) as answer:
            assert answer.status_code == 200, answer.read()
            assert answer.headers["content-type"].startswith("text/event-stream")
            data = ""
            for line in answer.iter_lines():
                if line.startswith("id: "):
                    self.last_id = line.removeprefix("id: ")
                elif line.startswith("data: "):
                    data = line.removeprefix("data: ")
                elif not line and data:
                    self.events.append(json.loads(data))
                    data = ""
                    taken += 1
                if taken >= events_max:
                    return

    @property
    def places(self) -> list[tuple[int, int]]:
        return [(each["partition"], each["offset"]) for each in self.events]


def placed(conn: Connection) -> int:
    return sum(each.next_offset - 1 for each in bounds_of(conn, "orders").values())


def fill(conn: Connection, number: int, first: int = 0) -> None:
    before = placed(conn)
    for n in range(first, first + number):
        publish(conn, "orders", {"n": n}, key=str(n % 7), event_type=f"t{n % 2}")

    def have_offsets() -> bool:
        sequence(conn)  # the gateway stands in, too, and may be at it
        return placed(conn) >= before + number

    until(have_offsets, "all have offsets")


def drop_beginning(conn: Connection, partition: int, first: int = 3) -> None:
    """Have a partition of orders begin there, as retention does."""
    conn.execute(
        "insert into gapless.log_start (topic_id, partition_id, first_offset, newest_ts)"
        " select topic_id, %s, %s, now() from gapless.topic where name = 'orders'",
        (partition, first),
    )


@pytest.mark.long
def test_a_range_never_changes(gateway: Client, conn: Connection) -> None:
    fill(conn, 30)
    found = gateway.get(EVENTS, params={"partition": 1, "from": 2, "limit": 3})
    said = found.json()
    assert (said["first_offset"], said["next_offset"]) == (2, 5)
    assert [each["offset"] for each in said["events"]] == [2, 3, 4]
    assert said["events"][0]["payload"].keys() == {"n"}
    assert found.headers["cache-control"] == "private, no-cache", "a failover may lose it"
    tag = found.headers["etag"]
    again = gateway.get(
        EVENTS, params={"partition": 1, "from": 2, "limit": 3}, headers={"If-None-Match": tag}
    )
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    end = gateway.get(EVENTS, params={"partition": 1, "from": said["end_offset"]})
    assert end.json()["events"] == []
    fill(conn, 30, 30)
    more = gateway.get(
        EVENTS,
        params={"partition": 1, "from": said["end_offset"]},
        headers={"If-None-Match": end.headers["etag"]},
    )
    assert len(more.json()["events"]) > 0
    after = gateway.get(EVENTS, params={"partition": 1, "from": 2, "limit": 3})
    assert (after.json()["events"], after.headers["etag"]) == (said["events"], tag)
    assert after.content == found.content or tag.startswith("W/"), "weak where a byte may differ"


def test_a_range_that_is_none(gateway: Client, conn: Connection) -> None:
    fill(conn, 10)
    for params in ({"partition": 0, "from": "9" * 19}, {"partition": "٣"}):
        problem(gateway.get(EVENTS, params=params), 400)
    drop_beginning(conn, 0)
    gone = problem(gateway.get(EVENTS, params={"partition": 0, "from": 2}), 410)
    assert gone["first_offset"] == 3


def test_what_a_client_has_is_not_sent_again(gateway: Client, conn: Connection) -> None:
    """If-None-Match as RFC 9110 has it; a 304 has the headers that the 200 would have."""
    fill(conn, 30)
    for params in ({"partition": 1, "limit": 3}, {"partition": 1}):
        full = gateway.get(EVENTS, params=params)
        tag = full.headers["etag"].removeprefix("W/")
        for given, status in (
            (tag, 304), (f"W/{tag}", 304), (f'"x", {tag}', 304), (f'W/"x,y" , W/{tag},', 304), ("*", 304),
 ('"x"', 200), (tag.strip('"'), 200), (f"{tag[:-1]}x", 200), ("", 200), ('"*"', 200),
        ):  # fmt: skip
            done = gateway.get(EVENTS, params=params, headers={"If-None-Match": given})
            assert done.status_code == status, given
            for name in ("etag", "cache-control", "x-content-type-options"):
                assert done.headers[name] == full.headers[name], (given, name)
        twice = [("If-None-Match", '"x"'), ("If-None-Match", tag)]
        assert gateway.get(EVENTS, params=params, headers=twice).status_code == 304
    problem(gateway.get(EVENTS, params={"partition": 7}, headers={"If-None-Match": "*"}), 404)


@pytest.mark.long
def test_large_events_are_not_all_read_at_once(gateway: Client, conn: Connection) -> None:
    for _ in range(12):
        publish(conn, "orders", "x" * 900_000, key="a")
    sequence(conn)
    partition = conn.execute("select gapless.partition_of('a', 2)").fetchone()
    assert partition is not None
    seen, at = 0, 1
    while True:
        page = gateway.get(EVENTS, params={"partition": partition[0], "from": at, "limit": 1000})
        assert len(page.content) < 20_000_000
        seen += len(page.json()["events"])
        if page.json()["next_offset"] == page.json()["end_offset"]:
            break
        at = page.json()["next_offset"]
    assert seen == 12


def test_a_stream_tells_what_comes(gateway: Client, conn: Connection) -> None:
    fill(conn, 5)
    reader = Reader()
    thread = threading.Thread(target=reader.read, args=(gateway, 10))
    thread.start()
    until(lambda: reader.last_id, "the first id is sent before any event", within=str)
    fill(conn, 10, 5)
    thread.join(30)
    assert sorted(each["payload"]["n"] for each in reader.events) == list(range(5, 15))


def test_a_stream_without_a_sequencer_and_from_the_beginning(gateway: Client) -> None:
    gateway.publish(*range(20))
    reader = Reader()
    reader.read(gateway, 20, **{"from": "earliest"})
    assert sorted(each["payload"] for each in reader.events) == list(range(20))


@pytest.mark.long
def test_streams_continue_at_any_gateway_without_a_gap_or_a_double(
    open_gateway: Open, orders: Topic, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers that change the gateway all the time, while events come and little is kept."""
    monkeypatch.setattr(feed_module, "KEPT_BYTES_MAX", 4_000)
    gateways = [open_gateway(), open_gateway()]
    total, readers = 600, [Reader() for _ in range(3)]
    begun = threading.Barrier(4)

    def follow(number: int, reader: Reader) -> None:
        begun.wait()
        turn = number
        while len(reader.events) < total:
            turn += 1
            left = total - len(reader.events)
            reader.read(gateways[turn % 2], min(left, 7 + turn % 90), **{"from": "earliest"})

    threads = [threading.Thread(target=follow, args=each) for each in enumerate(readers)]
    for thread in threads:
        thread.start()
    begun.wait()
    for n in range(0, total, 50):
        fill(conn, 50, n)
    for thread in threads:
        thread.join(120)
    for reader in readers:
        assert len(reader.places) == len(set(reader.places)) == total, "no gap, no double"
        for partition in (0, 1):
            offsets = [offset for number, offset in reader.places if number == partition]
            assert offsets == list(range(1, len(offsets) + 1)), "in the order of the partition"


@pytest.mark.long
def test_filters_of_a_stream(gateway: Client, orders: Topic, conn: Connection) -> None:
    fill(conn, 40)
    reader = Reader()
    reader.read(gateway, 20, **{"from": "earliest", "types": "t1"})
    assert sorted(each["payload"]["n"] for each in reader.events) == list(range(1, 40, 2))
    reader = Reader()
    reader.read(gateway, 5, **{"from": "earliest", "where": "$.n < 5"})
    assert sorted(each["payload"]["n"] for each in reader.events) == list(range(5))
    one = Reader()
    one.read(gateway, 3, **{"from": "earliest", "partition": 1})
    assert one.places == [(1, 1), (1, 2), (1, 3)]
    assert set(read_vector(one.last_id, orders.topic_id)[0]) == {1}
    for params in ({"where": "$$"}, {"types": ","}, {"partition": "9999"}):
        problem(gateway.get(STREAM, params=params), 400)


@pytest.mark.long
def test_partitions_that_are_added_are_followed(gateway: Client, conn: Connection) -> None:
    reader = Reader()
    thread = threading.Thread(target=reader.read, args=(gateway, 40))
    thread.start()
    until(lambda: reader.last_id, "the stream has begun", within=str)
    conn.execute("select gapless.set_partitions('orders', 4)")
    for n in range(40):
        publish(conn, "orders", n, key=str(n))
    while sequence(conn):
        pass
    thread.join(30)
    assert {each["partition"] for each in reader.events} == {0, 1, 2, 3}


def test_ids_and_one_partition(gateway: Client, conn: Connection, orders: Topic) -> None:
    """An id of all partitions serves for one of them; one of a single one serves for no other."""
    fill(conn, 40)
    whole, one = Reader(), Reader()
    whole.read(gateway, 30, **{"from": "earliest"})
    place, _ = read_vector(whole.last_id, orders.topic_id)
    one.last_id = whole.last_id
    one.read(gateway, 1, partition=1)
    assert one.places == [(1, place[1])]
    one.read(gateway, 1, partition=1)
    assert one.places[1:] == [(1, place[1] + 1)]
    for params in ({}, {"partition": 0}):
        headers = {"Last-Event-ID": one.last_id}
        said = problem(gateway.get(STREAM, params=params, headers=headers), 400)
        assert "partition=1" in said["detail"]


def test_a_newer_partition_whose_beginning_was_dropped(gateway: Client, conn: Connection) -> None:
    """A stream that has not had its first events ends, and is told so when it comes again."""
    reader = Reader()
    thread = threading.Thread(target=reader.read, args=(gateway, 1_000))
    thread.start()
    until(lambda: reader.last_id, "the stream has begun")
    before = reader.last_id
    conn.execute("select gapless.set_partitions('orders', 3)")
    drop_beginning(conn, 2)
    for n in range(40):
        publish(conn, "orders", n, key=str(n))
    while sequence(conn):
        pass
    thread.join(30)
    assert not thread.is_alive()
    for last_id in (before, reader.last_id):
        after = gateway.get(STREAM, headers={"Last-Event-ID": last_id})
        gone = problem(after, 410)
        assert (gone["partition"], gone["first_offset"]) == (2, 3)
    assert [place for place in reader.places if place[0] == 2] == []


def test_a_place_that_a_failover_has_passed(
    gateway: Client, conn: Connection, orders: Topic
) -> None:
    """A reader of lost events is told from where to read again, in a longer log too."""
    for n in range(9):
        fill(conn, 1, 7 * n)  # all of one key, a segment each
    (partition,) = {each for each, _ in reader_of(gateway, 9).places}
    ids = {n: reader_of(gateway, n).last_id for n in (5, 6, 9)}
    tag = gateway.get(EVENTS, params={"partition": partition, "limit": 5}).headers["etag"]
    live = Reader()
    thread = threading.Thread(target=live.read, args=(gateway, 1_000), kwargs={"from": "earliest"})
    thread.start()
    until(lambda: len(live.events) == 9, "it has all")
    conn.execute("update gapless.log_segment set timeline = 2 where base_offset > 5")
    thread.join(30)
    assert not thread.is_alive(), "streams of the old log end"
    params = {"partition": partition}
    for n, last_id in ids.items():
        if n == 5:
            again = Reader()
            again.last_id = last_id
            again.read(gateway, 4)
            assert [offset for _, offset in again.places] == [6, 7, 8, 9]
            continue
        said = problem(gateway.get(STREAM, headers={"Last-Event-ID": last_id}), 410)
        assert (said["partition"], said["first_offset"]) == (partition, 6)
        there = {**params, "from": n + 1}
        said = problem(gateway.get(EVENTS, params={**there, "timeline": 1}), 410)
        assert said["first_offset"] == 6
        assert gateway.get(EVENTS, params=there).json()["timeline"] == 2
        assert gateway.get(EVENTS, params={**there, "timeline": 2}).status_code == 200
    params["limit"] = 5
    assert gateway.get(EVENTS, params=params, headers={"If-None-Match": tag}).status_code == 200
    assert gateway.get(STREAM, headers={"Last-Event-ID": live.last_id}).status_code == 410


def reader_of(gateway: Client, events: int) -> Reader:
    """A reader that has so many."""
    reader = Reader()
    reader.read(gateway, events, **{"from": "earliest"})
    return reader


def test_the_head_of_a_stream_ends(gateway: Client, orders: Topic) -> None:
    done = gateway.client.head(STREAM, timeout=5)
    assert (done.status_code, done.content) == (200, b"")
    with gateway.client.stream("GET", STREAM) as stream_of_it:
        ours = stream_of_it.headers
    assert {*ours.items()} - {*done.headers.items()} <= {
        ("transfer-encoding", "chunked"),
        ("date", ours["date"]),
    }
    for params, status in (({"last_event_id": "!"}, 400), ({"partition": "7"}, 404)):
        assert gateway.client.head(STREAM, params=params, timeout=5).status_code == status


NONE = [
    "!",
    "AQ",
    "AQE",
    "AQEA",
    "AgEB",
    "_____w",
    "a" * 3000,
    "AQECAg\u00e9",
    "AQH/////////////fw",
]


def forged(topic_id: int) -> list[str]:
    """Ids that no stream has sent, or not of this topic as it is."""
    return [
        *NONE,
        vector_text(topic_id, {0: 2**62}, 1),
        vector_text(topic_id + 1, {0: 1}, 1),
        vector_text(topic_id, {1000: 1}, 1),
        vector_text(topic_id, {0: 7}, 1),
    ]


def test_forged_ids_are_refused(gateway: Client, orders: Topic, conn: Connection) -> None:
    fill(conn, 3)
    for text in forged(orders.topic_id):
        headers = {"Last-Event-ID": text.encode()}
        with gateway.client.stream("GET", STREAM, headers=headers) as done:
            assert done.status_code in (400, 404), text
    drop_beginning(conn, 0, 2)
    gone = gateway.get(
        STREAM, headers={"Last-Event-ID": vector_text(orders.topic_id, {0: 1, 1: 1}, 1)}
    )
    assert problem(gone, 410)["first_offset"] == 2


def test_an_id_says_the_place() -> None:
    for place in ({0: 1}, {0: 5, 3: 2**62}, {7: 128}, dict.fromkeys(range(8), 10_000)):
        assert read_vector(vector_text(9, place, 2**31 - 1), 9) == (place, 2**31 - 1)
    assert len(vector_text(1, dict.fromkeys(range(8), 1_000_000), 1)) < 40
    assert read_vector("AQkFAAE", 9) == ({0: 5, 2: 1}, None), "of gateways before"
    for text in ["", *NONE]:
        with pytest.raises(Problem):
            read_vector(text, 1)


@contextmanager
def deaf(gateway: Client) -> Iterator[None]:
    """A client that asks for a stream and reads nothing of it."""
    host, _, port = gateway.url.removeprefix("http://").rpartition(":")
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect((host, int(port)))
        sock.sendall(f"GET {STREAM}?from=earliest HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        yield


@pytest.mark.long
def test_a_client_that_does_not_read_disturbs_nobody(
    gateway: Client, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SEND_S_MAX", 1.0)
    for n in range(20):
        publish(conn, "orders", {"n": n, "pad": "x" * 200_000}, key="a")
    sequence(conn)
    with deaf(gateway), deaf(gateway):
        reader = Reader()
        reader.read(gateway, 20, **{"from": "earliest"})
        assert len(reader.events) == 20
        time.sleep(1.5)
        assert gateway.get("/healthz").status_code == 200
    assert gateway.publish(1)["events"] == 1


def test_a_client_that_goes_leaves_no_line(
    gateway: Client, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """A line of asyncio for each write to a connection that is gone is news for nobody."""
    publish(conn, "orders", [NewEvent(payload={"n": n}, key="a") for n in range(3_000)])
    while sequence(conn):
        pass
    for _ in range(10):
        with connected(gateway) as sock:
            sock.sendall(f"GET {STREAM}?from=earliest HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            assert sock.recv(1000)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert gateway.publish(1)["events"] == 1
    assert [each.getMessage() for each in caplog.records if each.name == "asyncio"] == []


@pytest.mark.long
def test_a_quiet_stream_says_that_it_lives(
    gateway: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "KEEP_ALIVE_S", 0.1)
    comments = 0
    with gateway.client.stream("GET", STREAM, timeout=20) as answer:
        for line in answer.iter_lines():
            comments += line.startswith(":")
            if comments == 3:
                break
    assert comments == 3
