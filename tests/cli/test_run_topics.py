"""Which topic a handler gets under `gapless run`, and which topics are made: from outside."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from gapless.db.connect import connect
from gapless.log.topics import ensure_topic
from support.servers import until

APP = """
import gapless


@gapless.handler(group="g")
def unnamed(unit, conn):
    for event in unit:
        conn.execute("insert into handled values (%s, %s)", [event.topic, event.key])


@gapless.handler(topic="ordrs", group="g")
def mistaken(unit, conn): ...
"""
LIGHT_PORTAL = """\
groupId: ${db-event-consumer.groupId:user-query-group}
batchSize: ${db-event-consumer.batchSize:100}
totalPartitions: ${db-event-consumer.totalPartitions:1}
partitionId: ${db-event-consumer.partitionId:0}
waitPeriodMs: ${db-event-consumer.waitPeriodMs:1000}
"""
INSERT = "insert into gapless.outbox_message_t (key) values (%s)"  # as in the classic design

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def app(tmp_path: Path) -> str:
    (tmp_path / "app.py").write_text(APP)
    return str(tmp_path / "app.py")


@pytest.fixture
def config(tmp_path: Path) -> tuple[str, str]:
    """Light-portal's file, as words of the command line."""
    path = tmp_path / "db-event-consumer.yml"
    path.write_text(LIGHT_PORTAL)
    return ("--config", str(path))


def topics(conn: psycopg.Connection) -> list[tuple[int, str, int]]:
    return conn.execute(
        "select topic_id, name::text, partitions from gapless.topic order by topic_id"
    ).fetchall()


def members(conn: psycopg.Connection) -> list[tuple[str]]:
    return conn.execute("select g.group_id from gapless.member_group g").fetchall()


def joined(conn: psycopg.Connection, process: subprocess.Popen[str]) -> None:
    """Wait until a supervisor has joined."""
    assert until(lambda: bool(members(conn)) or process.poll() is not None)
    assert process.poll() is None, process.communicate()


def handles(conn: psycopg.Connection, key: str, topic: str = "outbox") -> None:
    """Wait until what was published has been handled."""
    select = "select topic from handled where key = %s"
    assert until(lambda: conn.execute(select, [key]).fetchall() == [(topic,)])


def ended(process: subprocess.Popen[str]) -> str:
    """Stop a supervisor; return its log."""
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out + err


@pytest.mark.long
def test_a_topic_that_nobody_made_is_refused(gapless, conn, app) -> None:
    ensure_topic(conn, "orders", partitions=2)
    there = topics(conn)
    assert gapless("run", f"{app}:mistaken").complaint() == (
        "app:mistaken: topic \"ordrs\" does not exist; did you mean 'orders'? create it with "
        "gapless topics create ordrs, or let it be made: gapless run --create-topics, "
        "or createTopics: true"
    )
    ensure_topic(conn, "outbox", partitions=2)
    there = topics(conn)
    assert "app:mistaken: " in gapless("run", app).complaint()
    assert topics(conn) == there
    assert members(conn) == []


@pytest.mark.long
def test_a_topic_is_made_on_request_and_the_log_says_so(start: Start, conn, app) -> None:
    process = start("run", f"{app}:mistaken", "--create-topics")
    joined(conn, process)
    assert "created topic ordrs, partitions: 8" in ended(process)
    assert topics(conn) == [(2, "ordrs", 8)]
    process = start("run", f"{app}:mistaken", "--create-topics")
    joined(conn, process)
    assert "created topic" not in ended(process)


@pytest.mark.long
def test_a_handler_that_names_no_topic_gets_that_of_the_settings(
    gapless, start: Start, conn, app
) -> None:
    conn.execute("create table handled (topic text, key text)")
    ensure_topic(conn, "orders", partitions=2)
    words = ("run", f"{app}:unnamed")
    assert 'app:unnamed: topic "outbox" does not exist: create it' in gapless(*words).complaint()
    wrong = gapless(*words, GAPLESS_TOPIC="Order").complaint()
    assert "topic \"Order\" does not exist; did you mean 'orders'?" in wrong
    process = start(*words, GAPLESS_TOPIC="orders")
    joined(conn, process)
    conn.execute("select gapless.publish('orders', '1', key => 'k')")
    handles(conn, "k", "orders")
    ended(process)
    assert [name for _, name, _ in topics(conn)] == ["orders"]


@pytest.mark.long
def test_init_and_then_light_portals_file(bare, start: Start, empty_dsn: str, app, config) -> None:
    """Another topic may have been made meanwhile: id 1 stays that of the outbox."""
    env = {"GAPLESS_DSN": empty_dsn}
    assert bare("init", **env).code == 0
    assert bare("topics", "create", "orders", **env).code == 0
    with connect(empty_dsn, role="test") as conn:
        conn.execute("create table handled (topic text, key text)")
        process = start("run", f"{app}:unnamed", *config, "--dsn", empty_dsn)
        joined(conn, process)
        conn.execute(INSERT, ["k"])
        handles(conn, "k")
        assert "created topic outbox, partitions: 1" in ended(process)
        assert topics(conn) == [(1, "outbox", 1), (2, "orders", 8)]
    for words in ((), config):
        assert bare("init", *words, **env).out.startswith("nothing to do: "), words


@pytest.mark.long
def test_what_was_published_before_anybody_made_the_outbox(
    gapless, start: Start, conn, app, config
) -> None:
    conn.execute("create table handled (topic text, key text)")
    conn.execute(INSERT, ["early"])
    assert gapless("publish", "orders", "1", "--create", "--wait").code == 0
    assert topics(conn) == [(2, "orders", 8)], "a producer makes no topic"
    process = start("run", f"{app}:unnamed", *config)
    joined(conn, process)
    assert topics(conn) == [(1, "outbox", 1), (2, "orders", 8)]
    handles(conn, "early")
    ended(process)


@pytest.mark.long
def test_a_schema_that_goes_away_is_not_made_anew(gapless, start: Start, conn, app) -> None:
    """Who made topics at its start makes none when it comes back."""
    process = start("run", f"{app}:mistaken", "--create-topics")
    joined(conn, process)
    assert gapless("uninstall", "--yes").code == 0
    assert gapless("init").code == 0
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "Traceback" not in err.splitlines()[-1]
    assert topics(conn) == []
