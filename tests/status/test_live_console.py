"""The console driven by hand against a real database: what it asks for, how often, what it writes."""

import io
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from rich.console import Console

from gapless.db.connect import connect
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic
from gapless.ops.dlq.letters import LETTERS
from gapless.status.console import Letters, LiveConsole
from gapless.status.loop import SnapshotLoop
from gapless.status.view import At, ConsolePage, ConsoleState, LetterLine
from support.group import owner

PLACES = "select group_id, partition_id, first_offset from gapless.dead_letter"


class Asked:
    """Counts what the console has asked for, and lets the real thing answer."""

    def __init__(self) -> None:
        self.lists = 0
        self.redriven: list[At] = []
        self.before_redrive: Callable[[Connection[Any]], None] = lambda _: None

    def list(self, conn: Connection[Any], at: At) -> Sequence[LetterLine]:
        self.lists += 1
        return LETTERS.list(conn, at)

    def redrive(self, conn: Connection[Any], at: At) -> str:
        self.redriven.append(at)
        self.before_redrive(conn)
        return LETTERS.redrive(conn, at)


@pytest.fixture
def place(dsn: str, conn: Connection, topic: Topic) -> Iterator[At]:
    """Set two events aside; yield the place of the first."""
    with owner(dsn, "billing", topic) as group:
        for key in ("a", "b"):
            publish(conn, topic.name, {}, event_type="bad", key=key)
        sequence(conn)
        group.consume(refuse="bad")
        found = conn.execute(PLACES + " order by 2, 3").fetchone()
        assert found is not None
        yield (found[0], topic.name, found[1], found[2])


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def file() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def live(place: At, asked: Asked, file: io.StringIO) -> LiveConsole:
    """A console with the partition's page open."""
    letters = Letters(list=asked.list, show=LETTERS.show, redrive=asked.redrive)
    opened = tuple(ConsolePage(at=place[:depth]) for depth in (0, 2, 3))
    screen = Console(
        file=file, force_terminal=True, width=80, height=24, _environ={"TERM": "xterm"}
    )
    return LiveConsole(letters, ConsoleState(pages=opened), screen)


def text(file: io.StringIO) -> str:
    """What was written since the last call."""
    written = file.getvalue()
    file.seek(0)
    file.truncate()
    return written


@pytest.mark.long
def test_a_connection_that_is_cut_while_it_redrives_does_not_redrive_twice(
    live: LiveConsole, asked: Asked, dsn: str, conn: Connection, place: At, file: io.StringIO
) -> None:
    def cut(its: Connection[Any]) -> None:
        conn.execute("select pg_terminate_backend(%s)", [its.info.backend_pid])
        with suppress(psycopg.Error):
            its.execute("select 1")

    with SnapshotLoop(lambda: connect(dsn, role="status"), live) as looker, live:
        looker.look()
        asked.before_redrive = cut
        live.press(["r", "y"])
        looker.due_s = 0.0
        looker.tick()
        assert "no answer to the redrive: look whether it was done" in text(file)
        assert "connection lost" in live_text(live, file)
        looker.due_s = 0.0
        looker.tick()
        assert asked.redriven == [place]
        assert "connection lost" not in live_text(live, file)


@pytest.mark.long
def test_a_wish_without_a_connection_is_dropped(
    live: LiveConsole, asked: Asked, dsn: str, file: io.StringIO
) -> None:
    is_there = [True, False, True]

    def reach() -> Connection[Any]:
        if is_there.pop(0):
            return connect(dsn, role="status")
        raise psycopg.OperationalError("no server")

    with SnapshotLoop(reach, live) as looker, live:
        looker.look()
        looker.close()
        live.press(["r", "y"])
        looker.due_s = 0.0
        looker.tick()
        assert "not redriven: there is no connection" in text(file)
        looker.look()
        assert asked.redriven == []


@pytest.mark.long
def test_letters_are_asked_for_again_when_some_have_changed(
    live: LiveConsole, asked: Asked, dsn: str, conn: Connection, place: At
) -> None:
    with SnapshotLoop(lambda: connect(dsn, role="status"), live) as looker:
        for _ in range(3):
            looker.look()
        assert asked.lists == 1
        LETTERS.redrive(conn, place)
        looker.look()
        assert asked.lists == 2


def test_only_lines_that_changed_are_written(
    live: LiveConsole, conn: Connection, file: io.StringIO
) -> None:
    with live:
        live.look(conn)
        assert text(file).count("H") >= 24
        live.redraw()
        assert text(file) == "", "nothing has changed"
        live.lost("gone")
        changed = text(file)
        assert "\x1b[2;1H" in changed, "the second line says so"
        assert "\x1b[24;1H" not in changed, "the last one has not changed"
        assert "\x1b[2J" not in changed, "nothing is cleared"
        live.repaint()
        assert "\x1b[2J" in text(file)


def test_lines_that_were_shown_are_not_kept(
    live: LiveConsole, conn: Connection, file: io.StringIO
) -> None:
    with live:
        live.look(conn)
        for n in range(400):
            if n == 100:
                tracemalloc.start()
            live.lost(f"gone for {n} s")
            text(file)
        grown_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert grown_bytes < 40_000


def live_text(live: LiveConsole, file: io.StringIO) -> str:
    """All of the screen, written anew."""
    text(file)
    live.repaint()
    return text(file)


def test_what_a_page_asks_for_and_is_refused_is_said(
    place: At, dsn: str, file: io.StringIO
) -> None:
    """A unit that is not there: the page stays, the last line says why it is empty."""
    at = (*place[:3], 999_999)
    opened = tuple(ConsolePage(at=at[:depth]) for depth in (0, 2, 3, 4))
    screen = Console(
        file=file, force_terminal=True, width=80, height=24, _environ={"TERM": "xterm"}
    )
    live = LiveConsole(LETTERS, replace(ConsoleState(), pages=opened), screen)
    with SnapshotLoop(lambda: connect(dsn, role="status"), live) as looker, live:
        looker.look()
        assert "there is no dead letter" in text(file)
