"""init and uninstall: idempotent, honest about what they did, careful with what is there."""

import os
import pty
import subprocess
import sys
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from gapless.cli.main import main
from gapless.db.connect import connect
from gapless.db.migrate import require_schema
from gapless.ops.install import is_installed


@pytest.fixture
def empty(bare, empty_dsn: str):
    """Run the command on a database without the schema."""
    return lambda *words, **options: bare(*words, **{"GAPLESS_DSN": empty_dsn, **options})


def test_init_says_what_it_did_and_then_nothing(empty, empty_dsn: str) -> None:
    first = empty("init", "--partitions", "8")
    assert (first.code, first.err) == (0, "")
    installed, chunks, topic = first.lines
    assert "schema gapless: baseline, " in installed
    assert chunks.startswith("made ")
    assert topic == "created topic outbox with 8 partitions"
    again = empty("init")
    assert (again.code, again.err) == (0, "")
    assert again.out.startswith("nothing to do: ")
    with connect(empty_dsn, role="test") as conn:
        require_schema(conn)


def test_init_that_is_interrupted_claims_no_part(
    empty_dsn: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files are applied in one transaction: of an interruption nothing stays."""

    def third(_conn, file) -> None:
        files.append(file)
        if len(files) == 3:
            raise KeyboardInterrupt

    files: list[object] = []
    monkeypatch.setattr("gapless.db.migrate._apply", third)
    assert main(["init", "--dsn", empty_dsn]) == 130
    assert "as a whole or not at all" in (said := capsys.readouterr().err)
    assert " done" not in said
    with connect(empty_dsn, role="test") as conn:
        assert not is_installed(conn)


@pytest.mark.long
def test_init_makes_a_topic_for_a_configuration_that_asks_for_one(empty, tmp_path) -> None:
    """Whatever it is asked by: a key of the file, a value, the environment, a flag."""
    assert "topic" not in empty("init").out
    assert "topic" not in empty("init", GAPLESS_BATCHSIZE="7").out
    assert empty("topics", "--json").json == []
    config = tmp_path / "gapless.yml"
    config.write_text("topic: orders\n")
    made = "created topic {} with {} partition{}\n".format
    assert empty("init", "--config", str(config)).out == made("orders", 8, "s")
    assert empty("init", GAPLESS_TOPIC="bills").out == made("bills", 8, "s")
    (tmp_path / "values.yml").write_text("db-event-consumer.totalPartitions: 1\n")
    config.write_text("batchSize: 5\n")
    assert empty("init", "--config", str(config)).out == made("outbox", 1, "")
    assert empty("init", "--config", str(config)).out.endswith(
        "is up to date, there is topic outbox with 1 partition\n"
    )
    assert empty("init", "--partitions", "3", GAPLESS_TOPIC="more").out == made("more", 3, "s")


@pytest.mark.long
def test_init_upgrades_what_changed(empty, empty_dsn: str) -> None:
    empty("init")
    with psycopg.connect(empty_dsn) as conn:
        conn.execute("update gapless.migration set digest = 'x' where name = 'publish'")
    assert "is older" in empty("topics").complaint()
    done = empty("init")
    assert done.code == 0
    assert done.lines[0].endswith("schema gapless: 1 function, roles")
    assert empty("topics").code == 0


@pytest.mark.long
def test_init_with_a_number_of_partitions(empty, tmp_path) -> None:
    assert "with 3 partitions" in empty("init", "--partitions", "3").out
    assert "nothing to do" in empty("init").out  # the default asks for nothing
    assert empty("init", "--partitions", "3").code == 0
    refused = empty("init", "--partitions", "5").complaint()
    assert refused == (
        'topic "outbox" has 3 partitions in the database, not 5: gapless topics alter outbox '
        "--partitions 5 gives it that number, or leave totalPartitions (--partitions) out"
    )
    assert "has 3" in empty("init", DB_EVENT_CONSUMER_TOTALPARTITIONS="4").complaint()


@pytest.mark.long
def test_init_sql_is_what_init_would_run(empty, empty_dsn: str) -> None:
    script = empty("init", "--sql")
    assert (script.code, script.err) == (0, "")
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        assert conn.execute("select to_regnamespace('gapless')").fetchone() == (None,)
        conn.execute(script.out)
    with connect(empty_dsn, role="test") as conn:
        require_schema(conn)
    assert empty("init", "--sql").out.startswith("-- nothing to do")
    assert "made 3 chunks" in empty("init").out


@pytest.mark.long
def test_init_of_two_at_once(start, empty_dsn: str) -> None:
    processes = [start("init", "--partitions", "8", "--dsn", empty_dsn) for _ in range(2)]
    ended = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], ended
    both = "".join(out for out, _ in ended)
    assert both.count("created topic outbox") == 1
    assert both.count("baseline") == 1


def test_a_database_that_lacks_characters_is_refused(bare, server_dsn: str) -> None:
    name = f"gapless_test_{uuid4().hex[:12]}"
    create = sql.SQL("create database {} template template0 locale 'C' encoding 'LATIN1'")
    drop = sql.SQL("drop database {} with (force)").format(sql.Identifier(name))
    with psycopg.connect(server_dsn, autocommit=True) as admin:
        admin.execute(create.format(sql.Identifier(name)))
        try:
            said = bare("init", GAPLESS_DSN=make_conninfo(server_dsn, dbname=name)).complaint()
        finally:
            admin.execute(drop)
    assert "has encoding LATIN1" in said
    assert "createdb --encoding UTF8" in said


@pytest.mark.long
def test_uninstall_needs_a_yes(gapless, dsn: str) -> None:
    gapless("publish", "orders", "1", "--create", "--wait")
    refused = gapless("uninstall")
    assert refused.code == 2
    said, why = refused.err.splitlines()
    assert "would lose 1 topics with 1 events" in said or "1 topic with 1 event" in said
    assert "without a terminal say --yes" in why
    assert gapless("topics").code == 0


def test_uninstall_removes_everything(gapless, conn) -> None:
    gapless("init")
    done = gapless("uninstall", "--yes")
    assert done.code == 0
    assert done.out.startswith("removed schema gapless from database ")
    assert conn.execute("select to_regnamespace('gapless')").fetchone() == (None,)
    again = gapless("uninstall", "--yes")
    assert (again.code, again.err) == (0, "")
    assert again.out.startswith("nothing to do: ")
    assert gapless("init").code == 0


@pytest.mark.long
def test_uninstall_asks_for_the_name(conn, dsn: str) -> None:
    assert _answer(dsn, "no") == 2
    assert conn.execute("select to_regnamespace('gapless') is null").fetchone() == (False,)
    assert _answer(dsn, conn.info.dbname) == 0
    assert conn.execute("select to_regnamespace('gapless') is null").fetchone() == (True,)


@pytest.mark.long
def test_uninstall_of_an_unknown_version(gapless, conn) -> None:
    conn.execute("insert into gapless.migration values ('migrations', '9999_future', 'x')")
    conn.execute("drop view gapless.topics cascade")
    done = gapless("uninstall", "--yes")
    assert done.code == 0
    assert "how much is in it cannot be seen" in done.err


def _answer(dsn: str, text: str) -> int:
    leader, follower = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "gapless", "uninstall"],
            stdin=follower,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "GAPLESS_DSN": dsn},
        )
        os.write(leader, f"{text}\n".encode())
        _, err = process.communicate(timeout=30)
        assert b"type the name of the database to continue: " in err
        return process.returncode
    finally:
        os.close(leader)
        os.close(follower)
