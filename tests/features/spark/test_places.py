"""Places that options name, and topics that a pattern matches: exact offsets, by the reader's rights."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from time import sleep
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.errors import HoleError, UsageError
from gapless.features.spark.offsets import EARLIEST, LATEST, StartPosition
from gapless.features.spark.options import read_options
from gapless.features.spark.place import find_ends, record_position
from gapless.features.spark.resolve import resolve
from gapless.features.spark.source import look, plan_batch
from gapless.features.spark.stream import StreamReader
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic, set_partitions
from support.records import value

BEFORE, AFTER = 10, 10


@pytest.fixture
def noon(conn: Connection) -> datetime:
    """The moment between ten events and ten others of orders; orders.eu has one event after it."""
    for topic in ("orders", "orders.eu", "payments"):
        ensure_topic(conn, topic, partitions=1)
    for n in range(BEFORE):
        publish(conn, "orders", {"n": n})
    moment: datetime = value(conn, "select clock_timestamp()")
    for n in range(AFTER):
        publish(conn, "orders", {"n": n})
    publish(conn, "orders.eu", {})
    sequence(conn)
    return moment


def _resolved(conn: Connection, noon: datetime, text: str, option: str = "startingOffsets") -> Any:
    """Return the offsets of orders and orders.eu; {noon} stands for the moment, a minute ago."""
    text = text.replace("{noon}", noon.isoformat())
    options = read_options({"url": conn.info.dsn, "subscribe": "orders,orders.eu", option: text})
    place = options.starting or options.ending
    assert place is not None
    otherwise = EARLIEST if option.startswith("starting") else LATEST
    now = noon + timedelta(minutes=1)
    found = resolve(conn, place, find_ends(conn, options), now=now, otherwise=otherwise)
    return found["orders"][0], found["orders.eu"][0]


@pytest.mark.parametrize(
    ("option", "text", "at"),
    [
        ("startingOffsets", "earliest", (1, 1)),
        ("startingOffsets", "latest", (21, 2)),
        ("startingOffsets", '{"orders": {"0": 7}}', (7, 1)),
        ("startingOffsets", "-5", (16, 1)),
        ("endingOffsets", "-5", (16, 1)),
        ("startingOffsets", "-60s", (11, 1)),
        ("startingOffsets", "-1m", (11, 1)),
        ("startingOffsets", "-1d", (1, 1)),
        ("startingOffsets", "-3ms", (21, 2)),
        ("startingTimestamp", "{noon}", (11, 1)),
        ("endingTimestamp", "{noon}", (11, 1)),
        ("startingOffsetsByTimestamp", '{"orders": {"0": "{noon}"}}', (11, 1)),
        ("endingOffsetsByTimestamp", '{"orders": {"0": "{noon}"}}', (11, 2)),
        ("startingOffsetsByTimestamp", '{"orders.eu": {"0": 4102444800000}}', (1, 2)),
    ],
)
def test_a_place_is_exact(
    conn: Connection, noon: datetime, option: str, text: str, at: tuple[int, int]
) -> None:
    assert _resolved(conn, noon, text, option) == at


@pytest.mark.parametrize("text", ["-1000", "-2h"])
def test_a_start_before_the_first_event_is_one_line_in_the_log(
    conn: Connection, noon: datetime, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    _resolved(conn, noon, "-1ms")
    assert "orders/0" not in caplog.text
    caplog.clear()
    assert _resolved(conn, noon, text) == (1, 1)
    (line,) = caplog.messages
    assert line.startswith(
        "startingOffsets goes back to the first event that the log has of orders"
    )


@pytest.mark.parametrize(
    ("option", "text", "says"),
    [
        ("startingOffsets", '{"orders": {"0": 99}}', "lies beyond the end"),
        ("startingOffsetsByTimestamp", '{"payments": {"0": 1}}', "is not among orders, orders.eu"),
        ("startingOffsetsByTimestamp", '{"orders": {"7": 1}}', "partition 7 of orders is not read"),
    ],
)
def test_a_place_that_is_not_there(
    conn: Connection, noon: datetime, option: str, text: str, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        _resolved(conn, noon, text, option)


def _topics(conn: Connection, pattern: str) -> list[str]:
    options = read_options({"url": conn.info.dsn, "subscribePattern": pattern})
    return [end.topic for end in find_ends(conn, options)]


def test_a_pattern_matches_whole_names_that_the_reader_may_see(
    conn: Connection, noon: datetime, role: Callable[..., str]
) -> None:
    assert _topics(conn, "orders.*") == ["orders", "orders.eu"]
    assert _topics(conn, "orders|pay.*") == ["orders", "payments"]
    with pytest.raises(UsageError, match="'order' matches no topic: it has to match a whole name"):
        _topics(conn, "order")
    conn.execute("alter table gapless.topic enable row level security")
    conn.execute("create policy few on gapless.topic using (name <> 'orders.eu')")
    with psycopg.connect(role("gapless_consumer")) as theirs:
        assert _topics(theirs, "orders.*") == ["orders"]


@pytest.fixture
def stream(conn: Connection, noon: datetime) -> Iterator[StreamReader]:
    reader = StreamReader(read_options({"url": conn.info.dsn, "subscribePattern": "orders.*"}))
    yield reader
    reader.close()


def test_a_topic_that_appears_is_read_from_its_first_event(
    conn: Connection, stream: StreamReader, caplog: pytest.LogCaptureFixture
) -> None:
    begin = stream.first()
    assert (begin["orders"], begin["orders.eu"]) == ({"0": 21}, {"0": 2})
    assert "behind 21 events: startingOffsets is latest by default" in caplog.text
    publish(conn, "orders", {})
    assert stream.first() == begin, "Spark asks twice"
    assert len(caplog.messages) == 1
    ensure_topic(conn, "orders.us", partitions=2)
    for n in range(6):
        publish(conn, "orders.us", {"n": n}, key=str(n))
    publish(conn, "payments", {})
    end = stream.next(begin, limited=False)
    assert "payments" not in end
    ranges = [each for task in stream.tasks(begin, end) for each in task]
    assert {each.topic for each in ranges} == {"orders", "orders.us"}
    assert sum(each.events for each in ranges) == 7
    assert stream.next(end, limited=False) == end


def test_an_end_that_is_fixed_lacks_topics_that_appear_later(
    conn: Connection, stream: StreamReader
) -> None:
    begin = stream.first()
    publish(conn, "orders", {})
    stream.stop_here()
    ensure_topic(conn, "orders.us", partitions=1)
    publish(conn, "orders.us", {})
    publish(conn, "orders", {})
    end = stream.next(begin, limited=False)
    assert json.dumps(end["orders"]) == '{"0": 22}'
    assert "orders.us" not in end
    for each in stream.tasks(begin, end):
        assert [one.topic for one in each] == ["orders"]


@pytest.mark.parametrize("ask", ["next", "all"])
@pytest.mark.parametrize("start", ["latest", "-15", "group:g", "-1500ms"])
def test_a_first_batch_that_is_repeated_is_the_same_range(
    conn: Connection, noon: datetime, start: str, ask: str
) -> None:
    """Spark keeps its end, and asks for the beginning again; all: as Spark does it before 4.2."""
    record_position(conn, "g", {"orders": {0: 5}})
    options = read_options({"url": conn.info.dsn, "subscribe": "orders", "startingOffsets": start})
    with closing(StreamReader(options)) as reader:
        if ask == "next":
            begin = reader.first()
            publish(conn, "orders", {})
            end = reader.next(begin, limited=False)
        else:
            publish(conn, "orders", {})
            end = reader.all()
            begin = reader.first()
        planned = reader.tasks(begin, end)
    sleep(1.5)
    publish(conn, "orders", {})
    sequence(conn)
    record_position(conn, "g", {"orders": {0: 23}})
    with closing(StreamReader(options)) as reader:
        assert reader.first() != begin
        assert reader.tasks(reader.first(), end) == planned
        assert reader.begun(reader.first(), end)["orders"] == begin["orders"]
        assert reader.next(end, limited=False)["orders"] == {"0": 23}
        after = reader.next(end, limited=False)
        ((each,),) = reader.tasks(end, after)
        assert (each.first_offset, each.last_offset) == (22, 22)


def test_a_first_batch_of_nothing_is_no_reason_for_another(
    conn: Connection, stream: StreamReader
) -> None:
    end = stream.next(stream.first(), limited=False)
    assert json.dumps(stream.next(end, limited=False)) == json.dumps(end)


def test_a_place_of_partitions_that_are_not_read_is_refused(
    conn: Connection, noon: datetime
) -> None:
    """They would be read anew by a query that reads them again."""
    set_partitions(conn, "orders", 2)
    options = read_options({"url": conn.info.dsn, "subscribe": "orders", "partitions": "1"})
    with closing(StreamReader(options)) as reader:
        assert reader.next({"orders": {"0": 1, "1": 1}}, limited=False)["orders"] == {"1": 1}
        with pytest.raises(UsageError, match=r"to partition 0 of topic orders, and .* reads 1 of"):
            reader.next({"orders": {"0": 2, "1": 1}}, limited=False)


@pytest.mark.parametrize(
    ("given", "first", "last"),
    [
        ({"endingTimestamp": "4102444800000"}, 1, 20),
        ({"startingTimestamp": "{noon}"}, 11, 20),
        ({"startingOffsets": "group:g"}, 5, 20),
        ({"endingOffsets": "group:g"}, 1, 4),
    ],
)
def test_a_dataframe_is_a_fixed_range(
    conn: Connection, noon: datetime, given: dict[str, str], first: int, last: int
) -> None:
    """Whatever is published, handled or dropped between load() and a job."""
    given = {name: text.replace("{noon}", noon.isoformat()) for name, text in given.items()}
    record_position(conn, "g", {"orders": {0: 5}})
    options = read_options({"url": conn.info.dsn, "subscribe": "orders", **given})
    loaded = look(options)
    publish(conn, "orders", {})
    sequence(conn)
    record_position(conn, "g", {"orders": {0: 22}})
    ((each,),) = plan_batch(options, loaded).tasks
    assert (each.first_offset, each.last_offset) == (first, last)
    conn.execute(
        "insert into gapless.log_start (topic_id, partition_id, first_offset, newest_ts)"
        " select topic_id, 0, 15, now() from gapless.topic where name = 'orders'"
    )
    with pytest.raises(HoleError, match=f"offsets {first} to 14 of orders/0 are no longer"):
        plan_batch(options, loaded)


def test_a_group_that_moves_on_meanwhile_leads_to_the_end(conn: Connection, noon: datetime) -> None:
    options = read_options({"url": conn.info.dsn, "subscribe": "orders"})
    ends = find_ends(conn, options)
    publish(conn, "orders", {})
    sequence(conn)
    record_position(conn, "g", {"orders": {0: 22}})
    place = StartPosition(kind="group", option="startingOffsets", group_id="g")
    found = resolve(conn, place, ends, now=noon, otherwise=EARLIEST)
    assert found == {"orders": {0: 21}}


def test_a_checkpoint_of_another_database_is_refused_however_long_its_log(
    conn: Connection, noon: datetime
) -> None:
    given = {"url": conn.info.dsn, "subscribe": "orders", "startingOffsets": "earliest"}
    reader = StreamReader(read_options(given))
    begin = reader.first()
    elsewhere = {**begin, "": {**begin[""], "created orders": 7}}
    for ask in (reader.show, lambda place: reader.tasks(place, place)):
        with pytest.raises(UsageError, match="topic orders of another database") as refused:
            ask(elsewhere)
        assert "\n" not in str(refused.value)
    by_hand = {"orders": begin["orders"]}
    assert reader.next(by_hand, limited=False)["orders"] == {"0": 21}
    reader.close()
