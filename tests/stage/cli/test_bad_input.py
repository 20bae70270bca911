"""Every bad input gets one clear line, exit code 2 and no traceback; and nothing is lost."""

from __future__ import annotations

import json

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from gapless.cli.title import without_passwords
from gapless.log.topics import ensure_topic
from support.ports import free_port

UUID = "00000000-0000-0000-0000-00000000000"


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


WRONG_WORDS = [
    # the words, and what the line says
    ([], "which command? gapless --help lists them"),
    (["tpoics"], "there is no command 'tpoics'; did you mean 'topics'?"),
    (["topics", "lsit"], "topics has no verb 'lsit'; did you mean 'list'?"),
    (["topics", "--jsn"], "topics list has no option '--jsn'; did you mean '--json'?"),
    (["topics", "list", "x"], "'x' is one word too many (see gapless topics list --help)"),
    (["run", "--worker=3", "a.py"], "run has no option '--worker'; did you mean '--workers'?"),
    (["topics", "create"], "the following arguments are required: name"),
    (["topics", "create", "t", "--partitions", "0"], "0 must be from 1 to 4096"),
    (["topics", "create", "t", "--partitions", "4097"], "4097 must be from 1 to 4096"),
    (["topics", "create", "t", "--partitions", "1_0"], "'1_0' is not a whole number"),
    (["topics", "create", "t", "--partitions", "９"], "'９' is not a whole number"),
    (["tail", "t", "-n", "-1"], "-1 must be from 0 to"),
    (["tail", "t", "--from", "0"], "'0' is not earliest, latest, or an offset from 1"),
    (["tail", "t", "--from", "yesterday"], "is not earliest, latest, or an offset from 1"),
    (["groups", "create", "g", "t", "--from", "now"], "'now' is not earliest, latest"),
    (["dlq", "show", "g/t/0"], "'g/t/0' is not GROUP/TOPIC/PARTITION@OFFSET"),
    (["dlq", "show", "g/t/0/x"], "is not GROUP/TOPIC/PARTITION@OFFSET"),
    (["dlq", "show", f"g/t/0/{10**30}"], "is not GROUP/TOPIC/PARTITION@OFFSET"),
    (["dlq", "list", "--limit", "0"], "0 must be from 1"),
    (["status", "--interval", "0"], "0 must be from 0.1 to 3600"),
    (["status", "--interval", "nan"], "nan must be from"),
    (["status", "--watch"], "needs a terminal"),
    (["publish", "t"], "give one payload, or --file FILE"),
    (["publish", "t", "1", "--file", "-"], "give one payload, or --file FILE"),
    (["publish", "t", "1", "--payload-only"], "are for --file"),
    (["publish", "t", "1", "--partitions", "3"], "--partitions is for --create"),
    (["publish", "t", "-", "--key", "a", "--key-field", "b"], "which of the two?"),
    (["publish", "t", "1", "--header", "x"], "--header 'x': write NAME=VALUE"),
    (["publish", "t", "1", "--transaction-id", "x"], "transaction_id 'x' is not a UUID"),
    (["publish", "t", "-", "--batch", "0"], "0 must be from 1"),
    (["publish", "t", "-", "--batch", "5", "--one-transaction"], "not allowed with argument"),
    (["publish", "t", "--file", "/does/not/exist"], "/does/not/exist: No such file or directory"),
    (["publish", "t", "--file", "/"], "/: is a folder"),
    (["topics", "--config", "/does/not/exist.yml"], "/does/not/exist.yml"),
    (["topics", "--dsn", ""], "--dsn: it is empty"),
    (["topics", "--dsn", "what is this"], "the DSN is not a connection string"),
    (["topics", "--dsn", "hots=here"], "the DSN is not a connection string"),
    (["topics", "--dsn", "postgres//h/d"], 'begins with "postgres//"; write host='),
    (["topics", "--dsn", "postgresql:h"], 'begins with "postgresql:"; write host='),
    (["topics", "--dsn", "postgresql://h:port/d"], "cannot connect to PostgreSQL"),
    (["topics", "create", b"\xff"], "argument 3 is not valid UTF-8"),
]  # fmt: skip


@pytest.mark.few(6)
@pytest.mark.parametrize(("words", "says"), WRONG_WORDS, ids=lambda x: None)
def test_wrong_words(bare, words: list[str | bytes], says: str) -> None:
    """They are refused before anything is connected to."""
    assert says in bare(*words, GAPLESS_DSN="host=/nowhere").complaint()


UNKNOWN_NAMES = [
    (["tail", "nosuch"], 'topic "nosuch" does not exist'),
    (["topics", "show", "nosuch"], 'topic "nosuch" does not exist'),
    (["groups", "show", "nosuch"], 'there is no group "nosuch"'),
    (["groups", "create", "g", "nosuch"], 'topic "nosuch" does not exist'),
    (["groups", "create", "a b", "orders"], '"a b" is not a group name'),
    (["groups", "create", "g" * 250, "orders"], "is not a group name"),
    (["topics", "create", "a/b"], '"a/b" is not a topic name'),
    (["topics", "create", ""], '"" is not a topic name'),
    (["topics", "create", "orders", "--partitions", "5"], "has 4 partitions in the database"),
    (["publish", "ordres", "1"], "does not exist; did you mean 'orders'? create it with"),
    (["tail", "ordres"], "does not exist; did you mean 'orders'? create it with"),
    (["publish", "orders", "1", "--create", "--partitions", "5"], "has 4 partitions"),
    (["tail", "orders", "--partition", "4"], "has partitions 0 to 3, no 4"),
    (["dlq", "show", "g/orders/0/1"], "there is no dead letter g/orders/0@1"),
]  # fmt: skip


@pytest.mark.long
def test_unknown_names(gapless, conn: psycopg.Connection) -> None:
    ensure_topic(conn, "orders", partitions=4)
    for words, says in UNKNOWN_NAMES:
        assert says in gapless(*words).complaint(), words


PAYLOADS = [
    ("{", "not JSON"),
    ("", "not JSON"),
    ("hello", "not JSON"),
    ("NaN", "NaN is not JSON"),
    ("[" * 100_000, "nested too deeply"),
    ('{"a": 1} 2', "not JSON: Extra data"),
]


@pytest.mark.long
def test_wrong_payloads(gapless, conn: psycopg.Connection) -> None:
    ensure_topic(conn, "orders", partitions=4)
    for payload, says in PAYLOADS:
        complaint = gapless("publish", "orders", payload).complaint()
        assert complaint.startswith("the payload is ")
        assert says in complaint
    assert conn.execute("select count(*) from gapless.outbox_message_t").fetchone() == (0,)


CONFIGS = [
    ("batchSise: 5\n", "line 1: unknown key 'batchSise'"),
    ("batchSize: 0\n", "batchSize is '0'"),
    ("batchSize: [\n", "gapless.yml"),
    ("dsn: hots=here\n", "the DSN is not a connection string"),
    ("totalPartitions: ${x:?say x}\n", "say x"),
]


@pytest.mark.parametrize(("text", "says"), CONFIGS, ids=lambda x: None)
def test_wrong_configuration(bare, tmp_path, text: str, says: str) -> None:
    config = tmp_path / "gapless.yml"
    config.write_text(text)
    assert says in bare("topics", "--config", str(config)).complaint()


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
    assert 'database "gapless_nowhere" does not exist' in bare("init", "--dsn", dsn).complaint()


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
