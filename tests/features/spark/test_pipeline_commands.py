"""Pipelines that ran once and do no more: who they keep events from being dropped for, and the end."""

from collections.abc import Callable
from typing import Any

import pytest
from psycopg import Connection

from gapless.errors import UsageError
from gapless.features.spark.commands import failed
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic
from support.chunks import next_chunk, small_chunks

Gapless = Callable[..., Any]
OLD = "update gapless.chunk_end set newest_ts = newest_ts - interval '8 days'"
FREES = "gapless pipeline run cold, or gapless pipeline remove cold"


@pytest.fixture
def abandoned(conn: Connection, gapless: Gapless) -> Connection:
    """Ten events that are old enough to go, and a pipeline that failed before it read any."""
    small_chunks(conn)
    ensure_topic(conn, "orders", partitions=1)
    for n in range(10):
        publish(conn, "orders", {"n": n}, key="k")
    sequence(conn)
    next_chunk(conn)
    conn.execute(
        "select gapless.register_pipeline('cold', array['orders'], 'earliest', 'table public.far')"
    )
    conn.execute("select gapless.note_pipeline('cold', 'the disk is full')")
    gapless("topics", "alter", "orders", "--retention", "7d", "--archive", "cold")
    gapless("retention")
    conn.execute(OLD)
    return conn


@pytest.mark.long
def test_one_that_failed_is_named_with_what_frees_its_events(
    gapless: Gapless, abandoned: Connection
) -> None:
    reason = f"pipeline cold has yet to read 10 events of orders, and has failed: {FREES}"
    assert gapless("status", "--json").json["held"] == [reason]
    assert reason in gapless("retention").out
    told = gapless("doctor").out
    assert reason in told
    assert f"cold has failed, and 10 events stay for it: the disk is full; {FREES}" in told
    abandoned.execute("select pg_advisory_lock(7427005, hashtext('cold'))")
    reason = "pipeline cold has yet to read 10 events of orders"
    assert gapless("status", "--json").json["held"] == [reason], "it runs"


@pytest.mark.long
def test_remove_asks_first_and_then_retention_goes_on(
    gapless: Gapless, abandoned: Connection
) -> None:
    what = {
        "pipeline": "cold",
        "target": "table public.far",
        "topics": ["orders"],
        "unread": 10,
        "archive_of": ["orders"],
    }
    asked = gapless("pipeline", "remove", "cold", "--json")
    assert asked.json == {**what, "removed": False}
    assert asked.err == (
        "gapless: nothing was changed: pipeline cold of orders, which has 10 events yet to read; "
        "retention waits for them, and --yes removes it\n"
    )
    assert "dropped the events of 0 chunks" in gapless("retention", "--apply").err
    assert gapless("pipeline", "remove", "cold", "--yes", "--json").json == {
        **what,
        "removed": True,
    }
    assert gapless("pipeline", "status", "--json").json == []
    assert gapless("groups", "--json").json == []
    assert gapless("status", "--json").json["held"] == []
    assert "dropped the events of 1 chunk" in gapless("retention", "--apply").err
    kept = abandoned.execute(
        "select group_id, detail ->> 'target', detail ->> 'archive' from gapless.audit"
        " where action = 'remove-pipeline'"
    ).fetchall()
    assert kept == [("pipeline.cold", "table public.far", "true")]
    again = gapless("pipeline", "remove", "cold", "--yes")
    assert again.complaint() == "pipeline cold has never run in this database"


@pytest.mark.long
def test_what_was_staged_goes_too(gapless: Gapless, abandoned: Connection) -> None:
    from gapless.features.spark.pipeline.table import stage_of

    name = stage_of("cold", "public.far").as_string(abandoned).replace('"', "")
    abandoned.execute(f"create unlogged table {name} ()".encode())
    done = gapless("pipeline", "remove", "cold", "--yes")
    assert done.out == (
        "removed pipeline cold of orders, which has 10 events yet to read: "
        "retention does not wait for it any more; its output stays\n"
    )
    assert abandoned.execute("select to_regclass(%s)", [name]).fetchone() == (None,)


def test_of_several_that_run_once_the_one_that_failed_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = UsageError('topic "lost" does not exist')
    assert failed({"cold": error}, of=2) == error.exit_code
    assert capsys.readouterr().err == 'gapless: cold: topic "lost" does not exist\n'
    assert failed({}, of=1) == failed({}, of=2) == 0
    with pytest.raises(UsageError, match="lost"):
        failed({"cold": error}, of=1)
