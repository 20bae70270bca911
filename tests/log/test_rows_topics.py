"""Topics as Python makes, finds and changes them: which rows come of it, and what is told."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.errors import RefusedError, UsageError
from gapless.log.topics import (
    Topic,
    adopt_topic,
    create_topic,
    ensure_topic,
    find_topic,
    missing,
    require_topic,
    set_dedupe_window,
    set_partitions,
)

ROW = "select partitions, retention::text, dedupe_window::text from gapless.topic where name = %s"
STRAYS = (
    "insert into gapless.outbox_message_t (topic_id, payload)"
    " select %s, '1' from generate_series(1, %s)"
)
NO_NAME = (
    '"two words" is not a topic name: use 1 to 249 letters, digits, dots, dashes and underscores'
)
WEEK = "168:00:00"
Kept = tuple[int, str | None, str]
_numbers = count(1)


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Connection[Any]]:
    """Topics orders and payments, of 3 and 2 partitions; each test makes others beside them."""
    with connect(module_dsn, role="test") as made:
        ensure_topic(made, "orders", partitions=3)
        ensure_topic(made, "payments", partitions=2)
        yield made


@pytest.fixture
def name() -> str:
    return f"zz-{next(_numbers)}"


def kept(conn: Connection[Any], name: str) -> Kept:
    (row,) = conn.execute(ROW, [name]).fetchall()
    return row  # type: ignore[no-any-return]


def test_a_topic_is_found_by_its_name(shared: Connection[Any]) -> None:
    numbers = dict(shared.execute("select name, topic_id from gapless.topic").fetchall())
    for each, partitions in (("orders", 3), ("payments", 2)):
        topic = Topic(topic_id=numbers[each], name=each, partitions=partitions)
        assert find_topic(shared, each) == require_topic(shared, each) == topic
    assert find_topic(shared, "Orders") is None


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("order", "; did you mean 'orders'?"), ("paymants", "; did you mean 'payments'?"), ("x", ":")],
)
def test_what_is_not_there_is_said_with_what_was_meant(
    shared: Connection[Any], asked: str, meant: str
) -> None:
    said = f'topic "{asked}" does not exist{meant} create it with gapless topics create {asked}'
    assert missing(shared, asked) == said
    with pytest.raises(RefusedError) as caught:
        require_topic(shared, asked)
    assert (str(caught.value), caught.value.sqlstate) == (said, "GL404")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, (4, None, WEEK)),
        ({"keep_s": 60.0}, (4, "00:01:00", WEEK)),
        ({"dedupe_window_s": 90.0}, (4, None, "00:01:30")),
        ({"keep_s": 60.0, "dedupe_window_s": 90.0}, (4, "00:01:00", "00:01:30")),
    ],
)
def test_who_makes_a_topic_is_told_so(
    shared: Connection[Any], name: str, more: dict[str, float], expected: Kept
) -> None:
    """Whoever finds it is not, and changes nothing of it."""
    topic, is_new = create_topic(shared, name, partitions=4, **more)
    assert (topic.name, topic.partitions, is_new) == (name, 4, True)
    assert kept(shared, name) == expected
    assert create_topic(shared, name, partitions=4, keep_s=7.0) == (topic, False)
    assert ensure_topic(shared, name, partitions=4, dedupe_window_s=7.0) == topic
    assert kept(shared, name) == expected
    other = ensure_topic(shared, f"{name}-too", partitions=4, **more)
    assert (other.name, other.topic_id > topic.topic_id) == (f"{name}-too", True)
    assert kept(shared, other.name) == expected


def test_another_number_of_partitions_is_refused(shared: Connection[Any], name: str) -> None:
    """With what mends it, on the command line and in the settings."""
    create_topic(shared, name, partitions=4)
    for make in (create_topic, ensure_topic):
        with pytest.raises(RefusedError) as caught:
            make(shared, name, partitions=5)
        assert (str(caught.value), caught.value.sqlstate) == (
            (
                f'topic "{name}" has 4 partitions in the database, not 5: gapless topics alter {name}'
                " --partitions 5 gives it that number, or leave totalPartitions (--partitions) out"
            ),
            "GL409",
        )
    assert kept(shared, name) == (4, None, WEEK)


def test_what_else_is_refused_says_nothing_of_partitions(
    shared: Connection[Any], name: str
) -> None:
    with pytest.raises(RefusedError) as caught:
        create_topic(shared, name, partitions=4, dedupe_window_s=0.0)
    assert (str(caught.value), caught.value.sqlstate) == (
        f'topic "{name}": the dedupe window must be more than nothing',
        "GL400",
    )
    assert find_topic(shared, name) is None


@pytest.mark.parametrize(
    ("wrong", "partitions", "said"),
    [
        ("two words", 1, NO_NAME),
        ("zz", 0, 'topic "zz": partitions must be from 1 to 4096, not 0'),
        ("zz", 4097, 'topic "zz": partitions must be from 1 to 4096, not 4097'),
    ],
)
def test_what_can_be_no_topic(
    shared: Connection[Any], wrong: str, partitions: int, said: str
) -> None:
    for make in (create_topic, ensure_topic):
        with pytest.raises(UsageError) as caught:
            make(shared, wrong, partitions=partitions)
        assert str(caught.value) == said
    with shared.transaction(force_rollback=True):
        shared.execute(STRAYS, [7001, 1])
        note_strays(shared, 7001, 1)
        with pytest.raises(UsageError) as caught:
            adopt_topic(shared, 7001, wrong, partitions=partitions)
        assert str(caught.value) == said


def note_strays(conn: Connection[Any], topic_id: int, events: int) -> None:
    """Let the events of an id be known, as a run of the sequencer does."""
    conn.execute(
        "insert into gapless.unrouted (topic_id, events, first_id, last_id)"
        " select %s, %s, min(id), max(id) from gapless.outbox_message_t where topic_id = %s",
        [topic_id, events, topic_id],
    )


@pytest.mark.parametrize("partitions", [5, 7])
def test_the_number_of_partitions_is_changed(
    shared: Connection[Any], name: str, partitions: int
) -> None:
    made = ensure_topic(shared, name, partitions=4)
    other = ensure_topic(shared, f"{name}-too", partitions=4)
    changed = set_partitions(shared, name, partitions)
    assert changed == Topic(topic_id=made.topic_id, name=name, partitions=partitions)
    assert (find_topic(shared, name), find_topic(shared, other.name)) == (changed, other)


def test_the_dedupe_window_is_changed(shared: Connection[Any], name: str) -> None:
    for each in (name, f"{name}-too"):
        ensure_topic(shared, each, partitions=1)
    set_dedupe_window(shared, name, 90.0)
    assert kept(shared, name) == (1, None, "00:01:30")
    assert kept(shared, f"{name}-too") == (1, None, WEEK)
    for topic, window_s, state in ((name, 0.0, "GL400"), ("nobody", 5.0, "GL404")):
        with pytest.raises(RefusedError) as caught:
            set_dedupe_window(shared, topic, window_s)
        assert caught.value.sqlstate == state
    assert kept(shared, name) == (1, None, "00:01:30")
