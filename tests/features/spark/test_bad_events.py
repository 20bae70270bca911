"""Bad events are counted and set aside with the batch's position, or not at all, and redriven."""

from dataclasses import replace
from typing import Any

import pytest
from psycopg import Connection

from gapless.errors import GaplessError, UsageError
from gapless.features.spark.pipeline import position
from gapless.features.spark.pipeline.bad import Redriven
from gapless.features.spark.pipeline.document import TargetSpec
from gapless.log.publish import publish
from gapless.log.topics import Topic, ensure_topic
from support.pipelines import pipeline

PIPELINE = pipeline(columns=("key", "value"), check="value is not null", on_bad_row="dead-letter")
STATES = "select partition_id, first_offset, state, attempts from gapless.dead_letter order by 1, 2"


@pytest.fixture
def log(conn: Connection, topic: Topic) -> Connection:
    for n in range(12):
        publish(conn, "outbox", {"n": n}, key="k", event_type=str(n))
    ensure_topic(conn, "elsewhere", partitions=1)
    position.register_pipeline(conn, PIPELINE)
    return conn


@pytest.fixture
def bad(log: Connection) -> tuple[str, int, int]:
    """An event of the first batch."""
    batch = position.next_batch(log, PIPELINE)
    ((topic, partitions),) = batch.end.items()
    (partition,) = [n for n, end in partitions.items() if end > 2]
    return topic, partition, 2


def end(conn: Connection, bad: Any, reason: str = "check") -> position.MicroBatch:
    batch = position.next_batch(conn, PIPELINE)
    batch.aside.bad = dict.fromkeys(bad, reason)
    position.end_batch(conn, "p", batch)
    return batch


def standing(conn: Connection) -> position.PipelineStanding:
    (found,) = position.list_pipelines(conn)
    return found


def letters(gapless: Any, *said: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = gapless(
        "dlq", "list", "--group", "pipeline.p", *said, "--json"
    ).json
    return found


def test_a_bad_event_is_a_dead_letter_of_the_pipeline(
    log: Connection, bad: Any, gapless: Any
) -> None:
    end(log, [bad], "check does not hold: value is not null")
    (letter,) = letters(gapless)
    assert (letter["topic"], letter["partition"], letter["offset"]) == bad
    assert (letter["state"], letter["event_type"]) == ("dead", "1")
    assert letter["error"] == "check does not hold: value is not null"
    assert (standing(log).bad, standing(log).events) == (1, 5)


def test_a_batch_that_does_not_end_sets_nothing_aside(
    log: Connection, bad: Any, gapless: Any
) -> None:
    batch = position.next_batch(log, PIPELINE)
    batch.aside.bad = {bad: "why"}
    with pytest.raises(ZeroDivisionError), log.transaction():
        position.end_batch(log, "p", batch)
        raise ZeroDivisionError
    assert (standing(log).bad, standing(log).events, letters(gapless)) == (0, 0, [])
    end(log, [bad])
    assert (standing(log).bad, len(letters(gapless))) == (1, 1)


def test_with_files_it_is_set_aside_as_they_are_recorded(
    log: Connection, bad: Any, gapless: Any
) -> None:
    """Another run only finishes the batch: it asks no check, and sets nothing aside again."""
    batch = position.next_batch(log, PIPELINE)
    batch.aside.bad = {bad: "why"}
    position.plan_files(log, "p", batch, [["a", "b"]])
    assert (standing(log).bad, len(letters(gapless))) == (1, 1)
    for each in (batch, position.next_batch(log, PIPELINE)):
        assert (each.number, each.end) == (0, batch.end)
    position.end_batch(log, "p", position.next_batch(log, PIPELINE))
    assert (standing(log).bad, standing(log).events, len(letters(gapless))) == (1, 5, 1)


@pytest.fixture
def asked(log: Connection, bad: Any, gapless: Any) -> list[Redriven]:
    """Two dead letters, which a person has asked for again."""
    topic, partition, _ = bad
    end(log, [bad, (topic, partition, 4)])
    assert position.next_batch(log, PIPELINE).aside.redriven == []
    gapless("dlq", "redrive", "--group", "pipeline.p", "--yes")
    lake = replace(PIPELINE, target=TargetSpec(kind="iceberg", where="orders"))
    with pytest.raises(UsageError, match="redriven, and iceberg orders takes none"):
        position.require_target(log, lake)
    with pytest.raises(UsageError, match="redriven, and iceberg orders takes none"):
        position.next_batch(log, lake)
    found = list(position.next_batch(log, PIPELINE).aside.redriven)
    assert [each.place for each in found] == [bad, (topic, partition, 4)]
    return found


def test_redriven_ones_are_a_batch_of_their_own(
    log: Connection, bad: Any, asked: list[Redriven]
) -> None:
    assert [each.value for each in asked] == ['{"n":1}', '{"n":3}']
    batch = position.next_batch(log, PIPELINE)
    assert (batch.start, batch.events, batch.is_due) == (batch.end, 0, True)
    batch.aside.bad = {bad: "why"}
    position.end_batch(log, "p", batch)
    _, partition, _ = bad
    assert log.execute(STATES).fetchall() == [
        (partition, 2, "dead", 2),
        (partition, 4, "redriven", 1),
    ]
    assert (standing(log).bad, standing(log).events, standing(log).batches) == (2, 5, 2)
    assert position.next_batch(log, PIPELINE).events == 5, "then the log again"


def test_one_that_a_person_took_back_meanwhile_is_not_handled(
    log: Connection, bad: Any, asked: list[Redriven], gapless: Any
) -> None:
    batch = position.next_batch(log, PIPELINE)
    topic, partition, offset = bad
    gapless(
        "dlq", "discard", f"pipeline.p/{topic}/{partition}@{offset}", "--reason", "old", "--yes"
    )
    with pytest.raises(GaplessError, match="were changed while"), log.transaction():
        position.end_batch(log, "p", batch)
    batch = position.next_batch(log, PIPELINE)
    assert [each.offset for each in batch.aside.redriven] == [4]
    position.end_batch(log, "p", batch)
    assert [row[2] for row in log.execute(STATES)] == ["discarded", "redriven"]


def test_a_reset_meets_them_again_in_the_log(
    log: Connection, bad: Any, asked: list[Redriven]
) -> None:
    position.reset_pipeline(log, "p", "earliest")
    assert log.execute(STATES).fetchall() == []
    assert position.next_batch(log, PIPELINE).events == 5
