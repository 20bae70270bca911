"""The table of docs/reference/exit-codes.md is true: each thing that it names is done, or has its test."""

import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from gapless.db.connect import cannot_connect
from gapless.errors import UnreachableError
from gapless.log.topics import ensure_topic
from support.ports import free_port
from support.servers import until

ROOT = Path(__file__).parents[2]
NOWHERE = "host=/nowhere"
# Those that take more than a command; where they are tested.
ELSEWHERE = {
    "the connection was lost": "cli/test_bad_input.py::test_a_connection_that_is_lost",
    "`dlq import` left a unit alone": "cli/test_dlq.py::test_export_mend_import_redrive",
    "`webhooks test` was not answered with 2xx": "features/webhooks/test_webhook_commands.py::test_test_says_what_the_endpoint_answered",
    "`publish --wait group:NAME` met a dead letter, or `--timeout` was over (it is published)": (
        "cli/test_publish_wait.py::test_a_dead_letter_is_a_failure"
    ),
    "`pipeline verify` found a hole": "features/spark/engine/test_delta.py::test_as_an_archive",
    "a pooler in transaction mode": "cli/test_pooler.py::test_the_rest_is_refused_in_one_sentence",
    "the server starts, stops or recovers": (
        "worker/test_start.py::test_a_server_that_is_not_ready_yet"
    ),
    "row security hides the schema's rows": (
        "cli/test_privileges.py::test_what_row_security_hides_is_not_gone"
    ),
    "a read-only standby": "cli/test_standby.py::test_what_only_reads_works_on_a_standby",
    "`gapless tail -f`": "cli/test_main.py::test_ctrl_c_ends_tail_without_a_traceback",
    "`gapless tail orders \\| head -1`": "cli/test_main.py::test_a_reader_that_goes_away_is_no_error",
}


def table() -> dict[str, int]:
    """What the page names, with its code."""
    page = (ROOT / "docs" / "reference" / "exit-codes.md").read_text()
    rows = re.findall(r"^\| (\d+) \| .* \| (.*) \|$", page, re.MULTILINE)
    return {what: int(code) for code, instances in rows for what in instances.split("; ")}


class Doing:
    """Does what the page names; returns the exit code, or words of a command to run."""

    def __init__(self, dsn: str, conn: psycopg.Connection, role: Any, folder: Path) -> None:
        self.dsn = dsn
        self.conn = conn
        self.role = role
        self.app = folder / "app.py"
        self.app.write_text(
            "import gapless\n\n\n@gapless.handler(topic='orders', group='g')\n"
            "def handle(unit, conn): ...\n"
        )

    def words(self, what: str) -> list[str]:
        other = make_conninfo(self.dsn, dbname="gapless_nowhere")
        return {
            "`gapless init` on a database that is up to date": ["init"],
            "`gapless seek` without `--yes`": ["seek", "g", "--latest"],
            "`gapless doctor` has a FAIL": ["doctor", "--dsn", NOWHERE],
            "`server url` while it does not run": ["server", "url"],
            "an unknown option": ["topics", "--nonsense"],
            "an unknown topic": ["topics", "show", "nosuch"],
            "an unknown group": ["groups", "show", "nosuch"],
            "no such place": ["dlq", "show", "g/orders/0@1"],
            "a file that is not there": ["publish", "orders", "--file", "/does/not/exist"],
            "a DSN that cannot be read": ["topics", "--dsn", "what is this"],
            "no such database": ["topics", "--dsn", other],
            "no server listens there": ["topics", "--dsn", f"host=127.0.0.1 port={free_port()}"],
            "a host name that is not known": ["topics", "--dsn", "host=no.such.host.invalid"],
            "`gapless run` when `startTimeoutS` is over": ["run", str(self.app), "--dsn", NOWHERE],
        }[what]


@pytest.fixture
def doing(dsn: str, conn: psycopg.Connection, role: Any, tmp_path: Path) -> Doing:
    ensure_topic(conn, "orders", partitions=2)
    conn.execute("select gapless.create_group('g', 'orders', 'earliest')")
    return Doing(dsn, conn, role, tmp_path)


BY_HAND = {
    "`gapless run` that was told to drain",
    "a wrong password",
    "a missing right",
    "no schema",
    "the server takes no more connections",
    "the database takes no connections",
}


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("what", "code"), [(w, c) for w, c in table().items() if w not in BY_HAND | set(ELSEWHERE)]
)
def test_what_the_page_names(bare, doing: Doing, tmp_path: Path, what: str, code: int) -> None:
    env = {"GAPLESS_DSN": doing.dsn, "GAPLESS_STARTTIMEOUTS": "1", "GAPLESS_HOME": str(tmp_path)}
    done = bare(*doing.words(what), **env)
    assert done.code == code, done
    assert "Traceback" not in done.err


def test_the_rest_of_the_page_has_its_tests() -> None:
    assert BY_HAND | set(ELSEWHERE) <= set(table())
    for test in ELSEWHERE.values():
        path, name = test.split("::")
        assert f"def {name}" in (ROOT / "tests" / path).read_text(), test


@pytest.mark.long
def test_run_that_was_told_to_drain(
    doing: Doing, start: Callable[..., subprocess.Popen[str]]
) -> None:
    process = start("run", str(doing.app))
    member = "select exists (select from gapless.member)"
    assert until(lambda: doing.conn.execute(member).fetchone() == (True,))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == table()["`gapless run` that was told to drain"]


@pytest.mark.long
def test_run_that_waits_for_its_database_is_told_to_end(
    doing: Doing, start: Callable[..., subprocess.Popen[str]]
) -> None:
    process = start("run", str(doing.app), "--dsn", NOWHERE)
    line = process.stderr.readline()
    assert "trying again until it is there" in line
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "cannot connect" not in err, "one line"


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("a wrong password", 'FATAL:  password authentication failed for user "me"'),
        ("a wrong password", 'FATAL:  Passwort-Authentifizierung für Benutzer »me« fehlgeschlagen'),
        ("a wrong password", "fe_sendauth: no password supplied"),
        ("a wrong password", 'FATAL:  role "me" does not exist'),
        ("a wrong password", 'FATAL:  no pg_hba.conf entry for host "::1", user "me"'),
        ("a wrong password", "server does not support SSL, but SSL was required"),
        ("the server takes no more connections", "FATAL:  sorry, too many clients already"),
        ("the server starts, stops or recovers", "FATAL:  the database system is starting up"),
        ("the server starts, stops or recovers", "FATAL:  the database system is shutting down"),
        ("no server listens there", "Connection refused"),
        ("no server listens there", "timeout expired"),
    ],
)  # fmt: skip
def test_what_is_said_of_it(what: str, text: str) -> None:
    """Servers that let everybody in do not refuse a password: what libpq says of it is judged."""
    said = psycopg.OperationalError(
        f'connection failed: connection to server at "::1", port 5432 failed: {text}'
    )
    error = cannot_connect("host=::1", said)
    assert error.exit_code == table()[what]
    assert isinstance(error, UnreachableError) == (error.exit_code == 3)


def test_one_address_of_several_that_may_let_us_in() -> None:
    both = (
        'connection to server at "a" failed: FATAL:  role "me" does not exist\n'
        'connection to server at "b" failed: Connection refused'
    )
    assert cannot_connect("host=a,b", psycopg.OperationalError(both)).exit_code == 3


@pytest.mark.long
def test_what_the_database_refuses(
    bare, doing: Doing, empty_dsn: str, server_dsn: str, tmp_path: Path
) -> None:
    for what, dsn in (("a missing right", doing.role()), ("no schema", empty_dsn)):
        for words in (["topics"], ["run", str(doing.app)]):
            assert bare(*words, "--dsn", dsn).code == table()[what]
    name = sql.Identifier(str(conninfo_to_dict(doing.dsn)["dbname"]))
    door = sql.SQL("alter database {} with allow_connections {}")
    room = sql.SQL("alter database {} with connection limit {}")
    with psycopg.connect(server_dsn, autocommit=True) as admin:
        admin.execute(door.format(name, sql.Literal(False)))
        code = bare("topics", "--dsn", doing.dsn).code
        assert code == table()["the database takes no connections"]
        admin.execute(door.format(name, sql.Literal(True)))
        admin.execute(room.format(name, sql.Literal(0)))
        code = bare("topics", "--dsn", doing.role("gapless_consumer")).code
        assert code == table()["the server takes no more connections"]
