"""A real sequencer: it wakes when something is due, dies anywhere, and nothing comes twice."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import Connection

from gapless import Published, cancel
from gapless.features.scheduled.schedules import Schedule, add_schedule
from gapless.log.publish import publish
from gapless.log.topics import Topic, ensure_topic
from support.log import assert_gapless, placed, tags
from support.long import long_but
from support.servers import until

APP = """
import gapless

@gapless.handler(topic="outbox", group="g")
def note(unit, conn):
    for event in unit:
        conn.execute("insert into seen values (%s)", [event.event_type])

@gapless.schedule(every="1 s", publishes="outbox")
def pulse(due, conn):
    conn.execute("insert into pulses values (%s)", [due])
    return gapless.NewEvent(payload=1, event_type="pulse")
"""


@pytest.fixture
def app(tmp_path: Path, conn: Connection, topic: Topic) -> Path:
    conn.execute("create table seen (tag text); create table pulses (due timestamptz)")
    path = tmp_path / "later_app.py"
    path.write_text(textwrap.dedent(APP))
    return path


@contextmanager
def _run(dsn: str, app: Path, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    args = [sys.executable, "-m", "gapless", "run", str(app), "--dsn", dsn]
    env = {**os.environ, "GAPLESS_CREATETOPICS": "true", **environ}
    with subprocess.Popen(args, env=env, cwd=app.parent) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            finally:
                process.kill()


def _count(conn: Connection, what: str) -> int:
    row = conn.execute(f"select count(*) from {what}".encode()).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.long
def test_it_is_delivered_soon_after_its_time(dsn: str, conn: Connection, app: Path) -> None:
    """The sequencer sleeps for a second at a time, unless something is due sooner."""
    late_s = []
    with _run(dsn, app, GAPLESS_WAITPERIODMS="10000"):
        publish(conn, "outbox", 1, event_type="now")
        assert until(lambda: _count(conn, "seen where tag = 'now'") == 1)
        conn.execute("select gapless.pause_schedule('pulse')")
        for n in range(4):  # the best of some: the machine may be busy
            publish(conn, "outbox", 1, event_type=f"later {n}", deliver_in=1.5)
            row = conn.execute("select deliver_at from gapless.scheduled").fetchone()
            assert row is not None
            assert until(lambda n=n: _count(conn, f"seen where tag = 'later {n}'") == 1)
            found = conn.execute(
                "select extract(epoch from created_ts - %s)::float8"
                " from gapless.outbox_message_t where event_type = %s",
                [row[0], f"later {n}"],
            ).fetchone()
            assert found is not None
            late_s.append(found[0])
    assert 0 <= min(late_s) < 0.3, late_s


@pytest.mark.long
def test_a_scheduled_function_is_called_once_for_each_due_time(
    dsn: str, conn: Connection, app: Path
) -> None:
    """Two supervisors; what it returns is published in the transaction that did its effects."""
    with _run(dsn, app), _run(dsn, app):
        assert until(lambda: _count(conn, "seen where tag = 'pulse'") >= 4)
    pulses = conn.execute("select due from pulses order by due").fetchall()
    assert len(set(pulses)) == len(pulses) >= 4
    assert _count(conn, "gapless.outbox_message_t where event_type = 'pulse' and topic_id = 1") == (
        len(pulses)
    )
    row = conn.execute("select fired from gapless.schedule where name = 'pulse'").fetchone()
    assert row is not None
    assert row[0] >= len(pulses)


@pytest.mark.parametrize("point", long_but(["later.before", "later.promoted"], "later.promoted"))
def test_killed_between_promotion_and_run(
    dsn: str, conn: Connection, app: Path, point: str
) -> None:
    """S1 and S2: kill -9 of every sequencer at that point; another one goes on."""
    with _run(dsn, app, GAPLESS_FAILPOINTS=f"{point}=kill"):
        for n in range(40):
            publish(conn, "outbox", n, key="k", event_type=f"t{n}", deliver_in=0.02 * n)
        assert until(lambda: _count(conn, "gapless.scheduled") < 40 or point == "later.before")
    with _run(dsn, app):
        assert until(lambda: _count(conn, "seen where tag like 't%%'") >= 40)
    assert _count(conn, "seen where tag like 't%'") == 40
    log = placed(conn)
    assert_gapless(log)
    found = [tag for tag in tags(log) if tag is not None and tag.startswith("t")]
    assert sorted(found) == sorted(f"t{n}" for n in range(40))
    assert _count(conn, "gapless.scheduled") == 0


@pytest.mark.invariant("I11")
def test_the_log_names_who_does_not_end_a_cancel(
    dsn: str, conn: Connection, app: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    published = publish(conn, "outbox", 1, deliver_in=1)
    assert isinstance(published, Published)
    with _run(dsn, app), psycopg.connect(dsn) as other:
        assert cancel(other, published.scheduled_ids[0])
        named = f"the transaction of session {other.info.backend_pid} of role"
        assert until(lambda: named in capfd.readouterr().err)


@pytest.mark.long
def test_a_schedule_goes_on_with_another_supervisor(
    dsn: str, conn: Connection, app: Path, server_dsn: str
) -> None:
    ensure_topic(conn, "pulses", partitions=1)
    add_schedule(conn, Schedule(name="beat", topic="pulses", every="1 s", missed="all"))
    with _run(dsn, app) as first:
        assert until(lambda: _count(conn, "gapless.outbox_message_t where event_type = 'beat'") > 1)
        os.kill(first.pid, signal.SIGKILL)
    with _run(dsn, app):
        before = _count(conn, "gapless.outbox_message_t where event_type = 'beat'")
        assert until(
            lambda: _count(conn, "gapless.outbox_message_t where event_type = 'beat'") > before
        )
    rows = conn.execute(
        "select (headers ->> 'gapless-due')::timestamptz from gapless.outbox_message_t"
        " where event_type = 'beat' order by 1"
    ).fetchall()
    dues = [row[0] for row in rows]
    gaps = [(b - a).total_seconds() for a, b in zip(dues, dues[1:], strict=False)]
    assert gaps == [1.0] * len(gaps), "each due time once, none left out"
