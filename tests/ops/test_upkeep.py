"""Retention, pipelines, the schema, JSON lines; and the API as a whole."""

import os
import shutil
import subprocess
import sys
import tempfile
from inspect import getdoc, isclass, isfunction
from pathlib import Path

import psycopg
import pytest
from psycopg import Connection

import gapless
from gapless import ops
from gapless.db.connect import connect
from gapless.db.migrate import SchemaChange
from gapless.errors import UsageError
from gapless.log.publish import publish
from support.chunks import next_chunk, small_chunks
from support.records import Command, known, value

OLD = "update gapless.chunk_end set newest_ts = newest_ts - interval '8 days'"
KEEP = {"dead_letter_retention_s": 86_400, "audit_retention_s": 86_400}


@pytest.mark.long
def test_retention(conn: Connection, orders: None, command: Command, dsn: str) -> None:
    small_chunks(conn)
    next_chunk(conn)
    publish(conn, "orders", 1, key="a")
    ops.remove_group(conn, "billing")
    ops.alter_topic(conn, "orders", retention=ops.Retention(keep_s=604_800))
    first = ops.list_chunks(conn)[0]
    assert not first.goes
    assert first.reasons[0].startswith("topic orders keeps events until 20")
    conn.execute(OLD)
    going = [chunk.chunk for chunk in ops.list_chunks(conn) if chunk.goes]
    assert going
    assert [row["chunk"] for row in command("retention") if row["goes"]] == going
    told: list[int] = []
    assert ops.drop_chunks(conn, **KEEP, tell=told.append) == going
    assert told == [*range(1, len(going) + 1)]
    assert ops.show_topic(conn, "orders")[0].log_start_offset > 1
    with psycopg.connect(dsn) as held, pytest.raises(UsageError, match="autocommit"):
        ops.drop_chunks(held, **KEEP)


def test_pipelines(conn: Connection, orders: None, command: Command) -> None:
    assert ops.list_pipelines(conn) == []
    conn.execute(
        "select gapless.register_pipeline('cold', array['orders'], 'earliest', 'parquet /cold')"
    )
    assert known(ops.list_pipelines(conn)) == command("pipeline", "status")
    plan = ops.remove_pipeline(conn, "cold", dry_run=True)
    assert (plan.topics, plan.unread, plan.removed) == (["orders"], 10, False)
    ops.reset_pipeline(conn, "cold", "latest")
    assert ops.remove_pipeline(conn, "cold", dry_run=True).unread == 0
    assert ops.remove_pipeline(conn, "cold").removed
    for act in (ops.remove_pipeline, ops.reset_pipeline):
        with pytest.raises(UsageError, match="has never run"):
            act(conn, "cold")


@pytest.mark.long
def test_the_schema(empty_dsn: str) -> None:
    with connect(empty_dsn, role="test") as conn:
        assert not ops.is_installed(conn)
        told: list[tuple[int, int]] = []
        done = ops.install_schema(
            conn, chunk_events=1000, chunks_ahead=2, tell=lambda *so_far: told.append(so_far)
        )
        of = len(done.changes)
        assert told == [(number, of) for number in range(of)]
        assert done.changes[0] == SchemaChange(kind="tables", name="01_log")
        assert (done.chunk_events, bool(done.chunks_made)) == (1000, True)
        again = ops.install_schema(conn)
        assert (again.changes, again.chunks_made, again.chunk_events) == ([], 0, 1000)
        lost = ops.find_losses(conn)
        assert lost is not None
        assert (lost.topics, lost.events, lost.groups) == (0, 0, 0)
        ops.drop_schema(conn)
        assert not ops.is_installed(conn)


def test_publish_lines(conn: Connection, orders: None, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text('{"payload": 1}\n\n{"payload": 2, "dedupe_key": "k"}\n' * 2)
    with file.open("rb") as opened:
        lines = ops.JsonLines(opened.fileno(), "events.jsonl", ops.LineShape())
        done = ops.publish_lines(conn, "orders", lines, batch_lines=1)
    assert (done.events, done.transactions, done.duplicates, done.last_line) == (3, 4, 1, 6)
    assert done.xid is not None
    assert value(conn, "select count(*) from gapless.outbox_message_t") == 13
    file.write_text('{"payload": 3}\n{"payload": 4}\nnonsense\n')
    with (
        file.open("rb") as opened,
        pytest.raises(
            UsageError,
            match=r"line 3: not JSON.*; 1 event published, up to line 1; nothing after it",
        ),
    ):
        lines = ops.JsonLines(opened.fileno(), "events.jsonl", ops.LineShape())
        ops.publish_lines(conn, "orders", lines, batch_lines=1)


@pytest.mark.parametrize("package", [gapless, ops], ids=lambda package: package.__name__)
def test_every_public_name_is_there_and_documented(package) -> None:
    assert len(package.__all__) == len(set(package.__all__))
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        found = getattr(package, name)
        if isclass(found) or isfunction(found):
            assert getdoc(found), name
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = package.nonsense


@pytest.mark.long
def test_to_import_it_needs_nothing(tmp_path: Path) -> None:
    """Neither what a screen needs, nor Spark, nor even the driver, before something is asked for."""
    program = (
        "import sys; import gapless.ops as ops;"
        "heavy = ('psycopg', 'rich', 'yaml', 'pyspark', 'argparse', 'tenacity');"
        "assert not set(heavy) & set(sys.modules), sys.modules.keys();"
        "[getattr(ops, name) for name in ops.__all__];"
        "print([m for m in ('rich', 'pyspark', 'argparse') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env=os.environ,
    )
    assert (done.stdout, done.stderr) == (b"[]\n", b"")


@pytest.mark.long
@pytest.mark.slow
def test_the_embedded_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked at before it is there, started, used, and stopped twice."""
    folder = Path(tempfile.mkdtemp(prefix="gapless-ops-", dir="/tmp"))
    folder.chmod(0o755)  # root's server runs as nobody
    monkeypatch.setenv("GAPLESS_HOME", str(folder))
    before = ops.show_server()
    assert (before.running, before.version, before.url) == (False, None, None)
    with pytest.raises(UsageError, match="name"):
        ops.show_server("../x")
    try:
        started = ops.start_server()
        assert (started.running, started.stays) == (True, True)
        assert started.url is not None
        with psycopg.connect(started.url) as conn:
            assert conn.info.dbname == "gapless"
        assert ops.show_server() == started
    finally:
        assert ops.stop_server()
    assert not ops.stop_server()
    assert not ops.show_server().running
    shutil.rmtree(folder)


def test_any_error_is_one_line(conn: Connection, orders: None) -> None:
    """The database's error, with what grants the right that is missing; and our own."""
    conn.execute("set role gapless_producer")
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as refused:
        ops.pause(conn, ops.GroupPlace.parse("billing"))
    conn.execute("reset role")
    said = ops.explain(refused.value, "the night shift")
    assert said.text.startswith("the night shift: permission denied for ")
    assert said.text.endswith(": grant it gapless_operator")
    assert said.exit_code == 2
    assert ops.explain(UsageError("no\nsuch")) == ops.Explained("no such", 2)
    assert ops.explain(MemoryError()) == ops.Explained("out of memory", 1)
