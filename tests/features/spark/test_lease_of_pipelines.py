"""One run of a pipeline at a time: another instance takes over, and the former commits nothing."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from time import sleep
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.db.locked import lock_timeout
from gapless.errors import GaplessError, UsageError
from gapless.features.spark.pipeline import lease, position
from gapless.features.spark.pipeline.run import Runnable, run_locked
from gapless.log.catch_up import catch_up
from gapless.log.publish import publish
from gapless.log.topics import Topic, ensure_topic
from gapless.status import snapshot
from gapless.status.problems import problems
from support.pipelines import pipeline
from support.servers import until

PIPELINE = pipeline()


@pytest.fixture
def run(conn: Connection, topic: Topic) -> Connection:
    """A session that runs the pipeline, under epoch 1."""
    for n in range(12):
        publish(conn, "outbox", {"n": n}, key=str(n))
    ensure_topic(conn, "elsewhere", partitions=1)
    assert lease.try_lock_pipeline(conn, "p")
    position.register_pipeline(conn, PIPELINE)
    assert lease.take_pipeline(conn, "p") == 1
    return conn


@pytest.fixture
def other(run: Connection, dsn: str) -> Iterator[Connection]:
    """The session of another instance, which stands by."""
    with connect(dsn, role="test") as other, lease.standing_by(other, "p"):
        yield other


def standing(conn: Connection) -> position.PipelineStanding:
    (found,) = position.list_pipelines(conn)
    return found


def test_a_run_that_was_overtaken_ends_no_batch(
    run: Connection, other: Connection, dsn: str
) -> None:
    """Even over another session, with the same batch and the same offsets: its epoch is over."""
    batch = position.next_batch(run, PIPELINE, 1)
    lease.unlock_pipeline(run, "p")
    assert lease.try_lock_pipeline(other, "p")
    epoch = lease.take_pipeline(other, "p")
    for conn in (run, other):
        with pytest.raises(GaplessError, match="not at batch 0 any more"):
            position.end_batch(conn, "p", batch)
        with pytest.raises(GaplessError, match="has moved on"):
            position.plan_files(conn, "p", batch, [["a", "b"]])
    position.end_batch(other, "p", replace(batch, epoch=epoch))
    assert standing(other).events == 5


def test_status_knows_the_instance_that_runs_it(run: Connection, other: Connection) -> None:
    """A pipeline is no member: it, and not a supervisor, works on the pipeline's group."""
    catch_up(run)
    nobody = "pipeline.p/outbox: nobody works on it, 12 behind: start gapless pipeline run p"
    assert [str(each) for each in problems(snapshot(run))] == []
    lease.unlock_pipeline(run, "p")
    assert [str(each) for each in problems(snapshot(run))] == [], "the other stands by"
    other.close()
    assert until(lambda: [str(each) for each in problems(snapshot(run))] == [nobody])


@pytest.mark.parametrize("beat_ago", ["29 s", "-1 hour"], ids=["paused", "the clock was set back"])
def test_a_silent_run_loses_its_session(
    run: Connection, other: Connection, monkeypatch: pytest.MonkeyPatch, beat_ago: str
) -> None:
    """A process that is paused keeps its lock, and gives no sign of life."""
    other.execute(
        "update gapless.pipeline set beat_ts = clock_timestamp() - %s::interval", [beat_ago]
    )
    assert not lease.try_lock_pipeline(other, "p")
    run.execute("select 1")
    monkeypatch.setattr(lease, "TTL_S", 0.5)
    assert until(lambda: lease.try_lock_pipeline(other, "p"))
    with pytest.raises(psycopg.OperationalError):
        run.execute("select 1")


def test_a_run_that_begins_is_not_silent(run: Connection, other: Connection, dsn: str) -> None:
    """The sign of life that is there is that of a run that ended long ago."""
    run.execute("update gapless.pipeline set beat_ts = clock_timestamp() - interval '1 day'")
    lease.unlock_pipeline(run, "p")
    with connect(dsn, role="test") as new:
        assert lease.try_lock_pipeline(new, "p")
        assert not lease.try_lock_pipeline(other, "p")
        assert lease.take_pipeline(new, "p") == 2


def test_a_run_that_ends_a_batch_for_long_is_not_silent(
    run: Connection, other: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "TTL_S", 0.1)
    is_busy = "select state = 'active' from pg_stat_activity where pid = %s"
    ending = threading.Thread(target=run.execute, args=("select pg_sleep(2)",))
    ending.start()
    assert until(lambda: other.execute(is_busy, [run.info.backend_pid]).fetchone() == (True,))
    other.execute("update gapless.pipeline set beat_ts = '2020-01-01Z'")
    sleep(0.2)
    assert not lease.try_lock_pipeline(other, "p")
    ending.join()
    run.execute("select 1")


def test_signs_of_life_wait_for_no_batch_that_ends(run: Connection, other: Connection) -> None:
    position.register_pipeline(run, replace(PIPELINE, name="q"))
    assert lease.take_pipeline(run, "q") == 1
    run.execute("update gapless.pipeline set beat_ts = '2020-01-01Z'")
    batch = position.next_batch(run, PIPELINE, 1)
    with run.transaction():
        position.end_batch(run, "p", batch)
        with lock_timeout(other, 1000):
            other.execute("select gapless.beat_pipelines('{p,q}', '{1,1}')")
    beats = "select name from gapless.pipeline where beat_ts > '2020-01-01Z'"
    assert run.execute(beats).fetchall() == [("q",)]


def test_signs_of_life(
    run: Connection, other: Connection, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go on in the middle of a transaction of the run, and after a lost session."""
    monkeypatch.setattr(lease, "BEAT_S", 0.05)
    silent = "update gapless.pipeline set beat_ts = '2020-01-01Z'"
    beats = "select beat_ts > '2020-01-01Z' from gapless.pipeline"
    pulse = (
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        " where application_name = 'gapless/spark pulse' and datname = current_database()"
    )
    with lease.Heart(dsn) as heart, heart.beating("p", 1), run.transaction():
        for _ in range(2):
            other.execute(silent)
            assert until(lambda: other.execute(beats).fetchone() == (True,))
            other.execute(pulse)
    other.execute(silent)
    assert other.execute(beats).fetchone() == (False,)


def test_a_session_that_reset_or_removed_a_pipeline_does_not_keep_it(
    run: Connection, dsn: str
) -> None:
    """A program may go on with it, while an instance stands by for as long."""
    lease.unlock_pipeline(run, "p")
    with connect(dsn, role="test") as other:
        for change in (position.reset_pipeline, position.remove):
            change(run, "p")
            assert lease.try_lock_pipeline(other, "p")
            lease.unlock_pipeline(other, "p")


@pytest.mark.parametrize("mode", ["", "_shared"])
def test_a_stranger_neither_stops_an_instance_nor_stands_by(
    run: Connection, dsn: str, role: Callable[..., str], mode: str
) -> None:
    """Any role that may connect can have the lock of those that stand by."""
    lease.unlock_pipeline(run, "p")
    with psycopg.connect(role(), autocommit=True) as stranger, connect(dsn, role="test") as other:
        stranger.execute(f"select pg_advisory_lock{mode}(7427007, hashtext('p'))".encode())
        other.execute("set statement_timeout = '5s'")
        with lease.standing_by(other, "p"):
            assert lease.try_lock_pipeline(other, "p")
        lease.unlock_pipeline(other, "p")
        other.execute("reset statement_timeout")
        assert until(lambda: _removed(other))
        with pytest.raises(psycopg.OperationalError):
            stranger.execute("select 1")


def _removed(conn: Connection) -> bool:
    try:
        position.remove(conn, "p")
    except UsageError:
        return False
    return True


@pytest.mark.parametrize(
    ("error", "runs", "stands_by", "state"),
    [
        (None, True, True, "running"),
        (None, False, True, "waiting"),
        (None, False, False, "stopped"),
        ("why", True, False, "retrying"),
        ("why", False, True, "retrying"),
        ("why", False, False, "failed"),
    ],
)
def test_states(
    run: Connection, dsn: str, error: str | None, runs: bool, stands_by: bool, state: str
) -> None:
    position.note(run, "p", error)
    if not runs:
        lease.unlock_pipeline(run, "p")
    with connect(dsn, role="test") as other:
        if stands_by:
            with lease.standing_by(other, "p"):
                assert standing(run).state == state
        assert standing(run).standbys == 0
        assert stands_by or standing(run).state == state


def test_a_run_whose_session_has_ended_raises_what_failed_first(
    run: Connection, other: Connection, dsn: str
) -> None:
    def session() -> Any:
        other.execute("select pg_terminate_backend(%s)", [run.info.backend_pid])
        raise ValueError("Spark is gone")

    what = Runnable(PIPELINE, lambda df: df, session, lambda line: None)
    with pytest.raises(GaplessError, match="Spark is gone"):
        run_locked(run, lease.Heart(dsn), what, None)


def test_one_that_an_instance_would_begin_anew_is_not_removed(
    run: Connection, other: Connection
) -> None:
    """It stands by, or has failed and waits for its next try: nobody holds the lock then."""
    lease.unlock_pipeline(run, "p")
    with pytest.raises(UsageError, match=r"p: 1 instance of .* would begin it anew"):
        position.remove(run, "p")
    assert standing(run).state == "waiting"
    assert lease.try_lock_pipeline(other, "p"), "and its lock is free"
    lease.unlock_pipeline(other, "p")
    other.close()
    assert until(lambda: standing(run).standbys == 0)
    position.remove(run, "p")
    assert position.list_pipelines(run) == []
