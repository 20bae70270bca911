"""Tail, search and ranges show what the log holds, whatever the size of their slices.

All is compared with what SQL reads at once. Nothing is written but where the log begins, and that is taken back.
"""

import json
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.errors import RefusedError, UsageError
from gapless.log.event import NewEvent
from gapless.log.filter import ALL, Filter, filter_of
from gapless.log.publish import publish
from gapless.log.ranges import bounds_of, read_range
from gapless.log.search import EventSearch, search_events
from gapless.log.sequence import sequence
from gapless.log.tail import Entry, SlicePace, Tail, choose_partitions, partitions_of
from gapless.log.topics import Topic, ensure_topic

# Runs of the sequencer: keys of their events.
RUNS = ("aabcab", "c", "bbbabca", "abcdef" * 110, "aab")  # several slices in each partition
ODD = filter_of(["odd"])
READ = (
    "select p, r.c_offset, r.message_id, coalesce(r.key, r.host_id), r.event_type, r.transaction_id,"
    " r.created_ts from generate_series(0, %(count)s - 1) p,"
    " gapless.read(%(topic)s, p, 1, 10000) r order by r.message_id"
)
At = tuple[int, int]


class Log:
    """A topic of three partitions, the last of which has no event."""

    def __init__(self, conn: Connection[Any]) -> None:
        self.conn = conn
        ensure_topic(conn, "other", partitions=3)
        self.topic: Topic = ensure_topic(conn, "orders", partitions=3)
        n = 0
        for run in RUNS:
            events = []
            for key in run:
                n += 1
                kind = "odd" if n % 2 else "even"
                events.append(
                    NewEvent(payload={"n": n}, key=key, event_type=kind, headers={"h": n})
                )
            publish(conn, "orders", events)
            publish(conn, "other", events)
            while sequence(conn):
                pass
        self.rows = conn.execute(READ, {"count": 3, "topic": "orders"}).fetchall()
        self.partitions = sorted({row[0] for row in self.rows})

    def at(self, *, key: str | None = None, only: Filter = ALL, first: int = 1) -> list[At]:
        """Return places in the order of ids."""
        return [
            (row[0], row[1])
            for row in self.rows
            if row[1] >= first
            and key in (None, row[3])
            and (only.event_types is None or row[4] in only.event_types)
        ]

    def begin(self, first: int) -> None:
        """Let every partition begin there; from 1 on it is all that was published."""
        if first == 1:
            return
        self.conn.execute(
            "insert into gapless.log_start (topic_id, partition_id, first_offset, newest_ts)"
            " select %s, p, %s, now() from generate_series(0, 2) p"
            " on conflict (topic_id, partition_id) do update set first_offset = excluded.first_offset",
            [self.topic.topic_id, first],
        )


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Log]:
    with connect(module_dsn, role="test") as conn:
        yield Log(conn)


@pytest.fixture
def world(shared: Log) -> Iterator[Log]:
    with shared.conn.transaction(force_rollback=True):
        yield shared


def places(entries: Iterator[Entry] | list[Entry]) -> list[At]:
    return [(entry.partition, entry.offset) for entry in entries]


@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize("start", [1, 3, 99])
def test_from_an_offset(world: Log, start: int, first: int) -> None:
    world.begin(first)
    reader = Tail(world.conn, world.topic, [0, 1, 2])
    reader.start_at(start)
    assert places(reader.read()) == world.at(first=max(start, first))
    assert list(reader.read()) == []


@pytest.mark.parametrize("only", [ALL, ODD], ids=["all", "odd"])
@pytest.mark.parametrize("key", [None, "a", "nobody"])
@pytest.mark.parametrize("first", [1, 4])
def test_the_newest(world: Log, key: str | None, only: Filter, first: int) -> None:
    world.begin(first)
    for count in (0, 1, 3, 600):
        reader = Tail(world.conn, world.topic, [0, 1, 2], key=key, only=only)
        reader.start_behind(count)
        wanted = world.at(key=key, only=only, first=first)
        found = places(reader.read())
        if key is None and only is ALL:
            assert found == (wanted[-count:] if count else [])
        else:  # so many of each partition; whoever asks cuts them
            assert found == [
                each
                for each in wanted
                if count and each in [other for other in wanted if other[0] == each[0]][-count:]
            ]


def test_who_stops_reading_goes_on_behind_what_was_read(world: Log) -> None:
    reader = Tail(world.conn, world.topic, [0, 1, 2])
    found: list[At] = []
    for count in (1, 3, 500, 10_000):
        found += places(islice(reader.read(), count))
    assert found == world.at()


def test_some_partitions_and_others_later(world: Log) -> None:
    (one, *rest) = world.partitions
    reader = Tail(world.conn, world.topic, [one])
    assert places(reader.read()) == [each for each in world.at() if each[0] == one]
    assert reader.follow([one]) == []
    assert reader.follow([one, *rest]) == rest
    assert reader.follow(rest) == []
    assert places(reader.read()) == [each for each in world.at() if each[0] in rest]


@pytest.mark.parametrize(("chars", "payload"), [(None, '{"n":1}'), (0, ""), (4, '{"n"')])
def test_payloads_are_cut(world: Log, chars: int | None, payload: str) -> None:
    reader = Tail(world.conn, world.topic, [0, 1, 2], payload_chars=chars)
    first = next(reader.read())
    assert (first.payload, json.loads(first.headers or "")) == (payload, {"h": 1})


def test_which_partitions(world: Log) -> None:
    assert partitions_of(world.conn, world.topic) == [0, 1, 2]
    (of_a,) = {partition for partition, _ in world.at(key="a")}
    others = [number for number in range(3) if number != of_a]
    choose = {"conn": world.conn, "topic": world.topic}
    assert choose_partitions(**choose) == [0, 1, 2]  # type: ignore[arg-type]
    assert choose_partitions(**choose, only=0) == [0]  # type: ignore[arg-type]
    assert choose_partitions(**choose, key="a") == [of_a]  # type: ignore[arg-type]
    assert choose_partitions(**choose, key="a", only=of_a) == [of_a]  # type: ignore[arg-type]
    with pytest.raises(UsageError) as caught:
        choose_partitions(**choose, key="a", only=others[0])  # type: ignore[arg-type]
    assert str(caught.value) == (
        f"key 'a' is in partition {of_a}, not in {others[0]}: leave --partition out"
    )
    for number in (3, -1):
        with pytest.raises(UsageError) as caught:
            choose_partitions(**choose, only=number)  # type: ignore[arg-type]
        assert str(caught.value) == f'topic "orders" has partitions 0 to 2, no {number}'


@pytest.mark.parametrize("only", [ALL, ODD], ids=["all", "odd"])
@pytest.mark.parametrize("key", [None, "a", "nobody"])
@pytest.mark.parametrize("first", [1, 4])
def test_a_search(world: Log, key: str | None, only: Filter, first: int) -> None:
    world.begin(first)
    wanted = world.at(key=key, only=only, first=first)[::-1]
    searched = {each for each in world.at(first=first) if key is None or wanted}
    in_those = {partition for partition, _ in wanted}
    count = sum(each[0] in in_those for each in searched) if key else len(searched)
    for limit in (1, 3, len(wanted) + 1):
        found = search_events(world.conn, world.topic, EventSearch(key=key, only=only), limit=limit)
        assert places(list(found.entries)) == wanted[:limit]
        assert all(json.loads(each.payload or "")["n"] for each in found.entries)
        if limit > len(wanted):
            assert found.is_complete
            assert key == "nobody" or found.looked_at == count
        elif limit < len(wanted):
            assert not found.is_complete


def test_a_search_looks_at_so_many_at_most(world: Log) -> None:
    every = len(world.rows)
    for most in (0, 1, 500, 501, every, every + 1):
        found = search_events(
            world.conn, world.topic, EventSearch(only=filter_of(["none"])), look_max=most
        )
        assert min(most, every) <= found.looked_at < max(most, 1) + 500
        assert found.is_complete == (found.looked_at == every or most > every), most


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize(("since", "until"), [(None, 9), (9, None), (9, 15), (9, 9), (15, 9)])
def test_a_search_by_transaction_and_time(
    world: Log, since: int | None, until: int | None, by_id: bool
) -> None:
    own = world.rows[9][5] if by_id else None
    earliest = None if since is None else world.rows[since][6]
    latest = None if until is None else world.rows[until][6]
    wanted = EventSearch(transaction_id=own, since=earliest, until=latest)
    assert (
        places(list(search_events(world.conn, world.topic, wanted).entries))
        == [
            (row[0], row[1])
            for row in reversed(world.rows)
            if own in (None, row[5])
            and (earliest is None or row[6] >= earliest)
            and (latest is None or row[6] <= latest)
        ][:100]
    )


@pytest.mark.parametrize("only", [ALL, ODD], ids=["all", "odd"])
def test_a_range(world: Log, only: Filter) -> None:
    partition = world.partitions[0]
    offsets = [offset for number, offset in world.at() if number == partition]
    wanted = [offset for number, offset in world.at(only=only) if number == partition]
    first, stop = offsets[0], offsets[-1] + 1
    for start, end in ((first, stop), (first + 1, stop), (first, stop - 1), (first, first)):
        found = read_range(
            world.conn, "orders", partition, range(start, end), bytes_max=1_000_000, only=only
        )
        assert [each.offset for each in found.entries] == [
            each for each in wanted if start <= each < end
        ]
        assert found.next_offset == end
        assert all(each.payload for each in found.entries)
    at = first
    seen: list[int] = []
    while at < stop:
        one = read_range(world.conn, "orders", partition, range(at, stop), bytes_max=1, only=only)
        seen += [each.offset for each in one.entries]
        assert len(one.entries) <= 10
        assert one.next_offset > at
        at = one.next_offset
    assert seen == wanted


def sizes(entries: list[Entry]) -> list[int]:
    return [len(each.payload or "") + len(each.headers or "") + 200 for each in entries]


def test_a_range_ends_with_enough_text(world: Log) -> None:
    """Slices of 10, 20, 40 events, as long as they are small."""
    partition = world.partitions[0]
    read = partial(read_range, world.conn, "orders", partition, range(1, 51))
    whole = read(bytes_max=1_000_000).entries
    ten, thirty = sum(sizes(whole)[:10]), sum(sizes(whole)[:30])
    ends = {1: 10, ten: 10, ten + 1: 20, 5 * ten: 50, thirty: 30}
    for bytes_max, count in ends.items():
        found = read(bytes_max=bytes_max)
        assert (len(found.entries), found.next_offset) == (count, count + 1), bytes_max


def test_slices_are_smaller_while_their_events_are_large(world: Log) -> None:
    entries = list(islice(Tail(world.conn, world.topic, [world.partitions[0]]).read(), 10))
    size = sum(sizes(entries))
    for bytes_max, events in (
        (size * 4, 10), (size * 4 + 1, 20), (size, 10), (size - 1, 9), (size * 2 // 3, 6), (1, 1),
    ):  # fmt: skip
        pace = SlicePace(bytes_max)
        pace.adapt(entries)
        assert pace.events == events, bytes_max
    pace = SlicePace(1 << 30)
    for _ in range(9):
        pace.adapt(entries)
    assert pace.events == 500


def test_bounds(world: Log) -> None:
    last = {number: max([0, *(o for p, o in world.at() if p == number)]) for number in range(3)}
    found = bounds_of(world.conn, "orders")
    assert {number: (each.first_offset, each.next_offset) for number, each in found.items()} == {
        number: (1, end + 1) for number, end in last.items()
    }
    assert {each.topic_id for each in found.values()} == {world.topic.topic_id}
    with pytest.raises(RefusedError, match='"nobody" does not exist'), world.conn.transaction():
        bounds_of(world.conn, "nobody")
