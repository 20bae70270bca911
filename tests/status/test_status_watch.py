"""`status --watch` in a terminal: keys, signals, lost connections, and all put back as it was."""

import io
import os
import signal
import termios
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager

import psycopg
import pytest
from psycopg import Connection
from rich.console import Console

from gapless.db.connect import connect
from gapless.errors import UsageError
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic, ensure_topic
from gapless.ops.dlq.change import whoami
from gapless.ops.dlq.letters import LETTERS
from gapless.status.console import LiveConsole
from gapless.status.loop import watch
from gapless.status.view import ConsoleState
from support.group import owner
from support.terminal import ENTER, LEAVE, PATIENCE_S, Terminal, in_terminal

PLACES = "select partition_id, first_offset from gapless.dead_letter"
PROGRAM = """
from gapless.ops.dlq.letters import LETTERS
from gapless.db.connect import connect
from gapless.status.loop import watch
def run(dsn):
    return watch(lambda: connect(dsn, role="status"), LETTERS, interval_s=0.2)
"""


def _terminal(dsn: str) -> AbstractContextManager[Terminal]:
    """Run the console of a database in a pseudo terminal."""
    return in_terminal(PROGRAM, dsn, shows="q quit")


@pytest.fixture
def terminal(dsn: str) -> Iterator[Terminal]:
    with _terminal(dsn) as found:
        yield found


@pytest.mark.long
def test_the_screen_is_taken_and_given_back(terminal: Terminal) -> None:
    assert ENTER in terminal.text
    assert termios.tcgetattr(terminal.fd) != terminal.saved, "keys come one by one"
    terminal.keys("q")
    terminal.wait_for("code 0")
    assert terminal.is_restored


@pytest.mark.long
@pytest.mark.parametrize(
    ("signum", "code"),
    [
        pytest.param(signal.SIGINT, 0, marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long),
        (signal.SIGHUP, 129),
    ],
)
def test_a_signal_leaves_the_terminal_as_it_was(
    terminal: Terminal, signum: signal.Signals, code: int
) -> None:
    os.kill(terminal.pid, signum)
    terminal.wait_for(f"code {code}")
    assert terminal.is_restored


@pytest.mark.long
def test_ctrl_z_and_back(terminal: Terminal) -> None:
    terminal.keys("\x1a")
    terminal.wait_for("stopped")
    assert terminal.is_restored
    terminal.keys("\n")
    terminal.wait_for(ENTER)
    terminal.wait_for("q quit")
    assert termios.tcgetattr(terminal.fd) != terminal.saved
    terminal.keys("\x1a")
    terminal.wait_for("stopped")
    terminal.keys("\n")
    terminal.wait_for("q quit")
    terminal.keys("q")
    terminal.wait_for("code 0")
    assert terminal.is_restored


@pytest.mark.long
def test_the_terminal_is_closed(terminal: Terminal) -> None:
    os.kill(terminal.shell_pid, signal.SIGKILL)  # the session's leader: SIGHUP for the others
    terminal.close()
    give_up = time.monotonic() + PATIENCE_S
    while _is_alive(terminal.pid):
        assert time.monotonic() < give_up, "it goes on without a terminal"
        time.sleep(0.02)


def _is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that has ended may wait for its parent forever."""
    try:
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.long
def test_another_size_is_painted_at_once(terminal: Terminal) -> None:
    for columns, shown in ((30, "q quit  ? help  enter open  /…"), (80, "/ filter  s sort")):
        terminal.resize(10, columns)
        os.kill(terminal.pid, signal.SIGWINCH)
        terminal.wait_for(shown)
    assert "\x1b[10;1H" in terminal.text, "the last of ten lines"
    terminal.resize(10, 81)  # a terminal may have moved what was there
    os.kill(terminal.pid, signal.SIGWINCH)
    terminal.wait_for("\x1b[2J")


@pytest.mark.long
def test_a_lost_connection_is_made_again(terminal: Terminal, conn: Connection) -> None:
    terminal.wait_for(lambda: _cut(conn) > 0)
    terminal.wait_for("retrying")
    start = len(terminal.plain)
    terminal.wait_for(lambda: _sessions(conn) == 1)
    # What has stayed is not written again; the lines below move up to where the trouble was.
    terminal.wait_for(lambda: "no group consumes" in terminal.plain[start:])
    terminal.keys("q")
    terminal.wait_for("code 0")
    assert terminal.is_restored


@pytest.mark.long
def test_a_server_that_does_not_answer_cannot_keep_it(dsn: str, conn: Connection) -> None:
    with psycopg.connect(dsn) as other, _terminal(dsn) as terminal:
        other.execute("lock table gapless.lease")  # for 1 s a look waits, then the next one
        time.sleep(0.5)
        os.kill(terminal.pid, signal.SIGTERM)
        terminal.wait_for("code 143")  # the table is locked all the while
        assert terminal.is_restored


@pytest.mark.long
def test_keys_open_sort_and_filter(dsn: str, topic: Topic) -> None:
    with owner(dsn, "billing", topic), _terminal(dsn) as terminal:
        terminal.keys("s")
        terminal.wait_for("by name")
        terminal.keys("\x1bOP\x1b[A/bil")  # function keys are none of ours
        terminal.wait_for("/bil_")
        terminal.keys("\r")
        terminal.wait_for("only 'bil'")
        terminal.keys("\r")
        terminal.wait_for("gapless  billing/outbox")
        terminal.keys("?")
        terminal.wait_for("redrive; asks first")
        terminal.keys("x\x1b")
        terminal.wait_for("q quit")
        terminal.keys("q")
        terminal.wait_for("code 0")
        assert terminal.is_restored


@pytest.mark.long
def test_a_dead_letter_is_shown_and_redriven_when_asked_twice(
    dsn: str, conn: Connection, topic: Topic
) -> None:
    with owner(dsn, "billing", topic) as group:
        publish(conn, topic.name, {"total": "twelve\x1b[2J"}, event_type="ada")
        sequence(conn)
        group.consume(refuse="ada")
        place = conn.execute(PLACES).fetchone()
        assert place is not None
        with _terminal(dsn) as terminal:
            terminal.keys("\r/ada\r")  # in the group: nothing has this name or error
            terminal.wait_for("no row with 'ada'")
            terminal.keys("\x1b\x1b")
            terminal.wait_for("q quit")
            terminal.keys("\r")
            _open_partition(terminal, place[0])
            terminal.wait_for(lambda: "1 dead  " in terminal.plain)  # the row, not the page above
            terminal.keys("\r")
            terminal.wait_for('"total": "twelve\\u001b[2J"')
            terminal.wait_for(lambda: "Traceback (most recent call last)" in terminal.plain)
            terminal.keys("r")
            terminal.wait_for(f"redrive billing/outbox/{place[0]}@{place[1]}? y yes")
            terminal.keys("n")
            terminal.wait_for("left as it is")
            assert _dead(conn) == 1
            terminal.keys("r")
            terminal.wait_for("y yes")
            terminal.keys("y")
            terminal.wait_for("is asked to be handled again")
            assert _dead(conn) == 0
            terminal.keys("r")
            terminal.wait_for("y yes")
            terminal.keys("y")
            terminal.wait_for("was redriven already")
            terminal.keys("qqqq")
            terminal.wait_for("code 0")
            assert terminal.is_restored
    asked = "select redriven_by from gapless.dead_letter where state = 'waiting'"
    assert conn.execute(asked).fetchall() == [(whoami(),)], "for the record"


@pytest.mark.long
def test_who_may_only_look_is_told_that_redrive_is_refused(
    dsn: str, conn: Connection, topic: Topic
) -> None:
    with owner(dsn, "billing", topic) as group:
        publish(conn, topic.name, {}, event_type="ada")
        sequence(conn)
        group.consume(refuse="ada")
        place = conn.execute(PLACES).fetchone()
        assert place is not None
        program = PROGRAM.replace(
            'return watch(lambda: connect(dsn, role="status")',
            'return watch(lambda: as_consumer(connect(dsn, role="status"))',
        ) + (
            "def as_consumer(conn):\n    conn.execute('set role gapless_consumer')\n    return conn\n"
        )
        with in_terminal(program, dsn, shows="q quit") as terminal:
            terminal.keys("\r")
            _open_partition(terminal, place[0])
            terminal.wait_for("ValueError: refused")
            terminal.keys("r")
            terminal.wait_for("y yes")
            terminal.keys("y")
            terminal.wait_for("permission denied")
            assert _dead(conn) == 1
            terminal.keys("\x03")
            terminal.wait_for("code 0")


def _open_partition(terminal: Terminal, partition: int) -> None:
    """From a group's page: sorted by name, so many rows down."""
    terminal.keys("s" + "g" + "j" * partition + "\r")


def _dead(conn: Connection) -> int:
    found = conn.execute("select count(*) from gapless.letters where status = 'dead'").fetchone()
    assert found is not None
    return int(found[0])


def test_no_terminal_is_an_error(dsn: str) -> None:
    with pytest.raises(UsageError, match="needs a terminal"):
        watch(lambda: connect(dsn, role="status"), LETTERS, console=Console(file=io.StringIO()))


def test_a_terminal_that_only_prints_is_an_error(dsn: str) -> None:
    dumb = Console(force_terminal=True, _environ={"TERM": "dumb"})
    with pytest.raises(UsageError, match="needs a terminal"):
        watch(lambda: connect(dsn, role="status"), LETTERS, console=dumb)


def test_the_first_look_fails_before_the_screen_is_touched(
    dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> Connection:
        raise UsageError("no such database")

    with pytest.raises(UsageError, match="no such database"):
        watch(fails, LETTERS, console=Console(force_terminal=True, _environ={"TERM": "xterm"}))
    assert ENTER not in capsys.readouterr().out


def test_an_exception_gives_the_screen_back(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Console(force_terminal=True, _environ={"TERM": "xterm"})
    live = LiveConsole(LETTERS, ConsoleState(), screen)
    with pytest.raises(ZeroDivisionError), live as console:
        console.note("before the first look")
        console.lost("no connection yet")
        _ = 1 / 0
    out = capsys.readouterr().out
    assert out.index(ENTER) < out.index("no connection yet") < out.index(LEAVE)
    console.stop()
    assert capsys.readouterr().out == "", "stopping twice is harmless"


def _sessions(conn: Connection) -> int:
    row = conn.execute(
        "select count(*) from pg_stat_activity where application_name = 'gapless/status'"
        " and datname = current_database()"
    ).fetchone()
    assert row is not None
    return int(row[0])


def _cut(conn: Connection) -> int:
    row = conn.execute(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        " where application_name = 'gapless/status' and datname = current_database()"
    ).fetchone()
    assert row is not None
    return int(row[0])


ONE_LOOK = """
from gapless.cli.main import main
def run(dsn):
    return main(["status", "--dsn", dsn])
"""


@pytest.mark.long
def test_one_look_fits_the_terminal_it_is_printed_on(dsn: str, conn: Connection) -> None:
    made = ensure_topic(conn, "many", partitions=144)
    with (
        owner(dsn, "billing", made),
        in_terminal(ONE_LOOK, dsn, shows="code 0") as terminal,
    ):
        shown = terminal.plain.partition("gapless  ")[2].partition("code 0")[0].splitlines()
        assert len(shown) <= 23, "the first line is still there"
        assert max(map(len, shown)) <= 80
        assert any(line.startswith("billing/many ") for line in shown)
        assert ENTER not in terminal.text
        assert "\x1b[1mgapless" in terminal.text, "in colour"
