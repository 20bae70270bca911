"""Every bad input gets one clear line, exit code 2 and no traceback; and nothing is lost."""

import json

import pytest
from psycopg.conninfo import make_conninfo

from gapless.cli.title import without_passwords
from support.ports import free_port


def test_a_password_is_not_shown_by_ps() -> None:
    for text, shown in (
        ("postgresql://u:pw@h:5/d?a=b", "postgresql://u:…@h:5/d?a=b"),
        ("--dsn=postgres://u:p@:/?w@h/d", "--dsn=postgres://u:…@h/d"),
        ("postgresql://:pw@/d", "postgresql://:…@/d"),
        ("postgresql://h/d?password=pw&user=u", "postgresql://h/d?password=…&user=u"),
        ("postgresql://u@h:5/d", "postgresql://u@h:5/d"),
        ("host=h password=pw user=u", "host=h password=… user=u"),
        ("host=h PASSWORD = 'a \\' pw' user=u", "host=h PASSWORD = … user=u"),
        ("sslpassword=pw", "sslpassword=…"),
        ("host=h passfile=/x user=u", "host=h passfile=/x user=u"),
    ):
        assert without_passwords(text) == shown


def test_words_that_are_no_text(bare) -> None:
    assert "argument 3 is not valid UTF-8" in bare("topics", "create", b"\xff").complaint()


NONSENSE = (
    "host=x password=secret secret2",
    "host=x password='secret",
    "postgresql://me:secret%zz@h/d",
    "postgresql://me:sec ret@h/d",
    "postgresql://me:secret@[h/d",
    "postgresql://h/d?password=secret%00",
)


def test_a_password_is_never_shown(bare) -> None:
    for nonsense in NONSENSE:
        complaint = bare("topics", "--dsn", nonsense).complaint()
        assert complaint.startswith("the DSN is not a connection string: ")
        assert "sec" not in complaint
    assert "secret" not in bare("topics", "--dsn", "host=/nowhere password=secret").complaint(3)


def test_no_server(bare) -> None:
    complaint = bare("topics", "--dsn", f"host=127.0.0.1 port={free_port()}").complaint(3)
    assert complaint.startswith("cannot connect to PostgreSQL: ")
    assert "Connection refused" in complaint


def test_no_such_database(bare, server_dsn: str) -> None:
    dsn = make_conninfo(server_dsn, dbname="gapless_nowhere")
    told = 'database "gapless_nowhere" does not exist; create it with createdb, or name another one'
    assert bare("init", "--dsn", dsn).complaint().endswith(told)


def test_no_schema(bare, empty_dsn: str) -> None:
    for words in (
        ["topics"], ["groups"], ["dlq"], ["status"], ["tail", "t"], ["publish", "t", "1"],
        ["topics", "create", "t"], ["groups", "create", "g", "t"],
    ):  # fmt: skip
        complaint = bare(*words, "--dsn", empty_dsn).complaint()
        assert complaint.endswith("has no gapless schema: run gapless init")


def test_an_older_and_a_newer_schema(bare, conn, dsn: str) -> None:
    conn.execute("update gapless.migration set digest = 'x' where name = 'publish'")
    assert "is older than this program (publish" in bare("topics", "--dsn", dsn).complaint()
    conn.execute("insert into gapless.migration values ('migrations', '9999_future', 'x')")
    assert "is newer than this program" in bare("topics", "--dsn", dsn).complaint()
    assert "is newer than this program" in bare("init", "--dsn", dsn).complaint()


@pytest.mark.long
def test_a_connection_that_is_lost(gapless, conn, start) -> None:
    assert gapless("publish", "orders", "1", "--create").code == 0
    process = start("tail", "orders", "-f")
    process.stdout.readline()
    find = "select pid from pg_stat_activity where application_name = 'gapless/tail'"
    row = conn.execute(f"{find} and datname = current_database()").fetchone()
    conn.execute("select pg_terminate_backend(%s)", row)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (1, "")
    assert err.count("\n") == 1
    assert err.startswith("gapless: the connection to PostgreSQL was lost: ")


def test_json_errors_are_no_json(gapless) -> None:
    """With --json, stdout is either the whole document or nothing."""
    done = gapless("groups", "show", "nosuch", "--json")
    done.complaint()
    with pytest.raises(json.JSONDecodeError):
        json.loads(done.out)
