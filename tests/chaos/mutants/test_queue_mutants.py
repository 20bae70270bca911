"""The checker of queue groups can fail: each mutant of the product is caught, and the product is not.

Their deeds are found in the history afterwards.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread

import psycopg
import pytest
from psycopg import Connection

from chaos.checker import report
from chaos.checker.queue_rows import gather_queues
from chaos.checker.queues import find_in
from chaos.checker.violation import Violation
from chaos.effects import make_tables
from chaos.history import Answered, Grouped, Writer, read
from chaos.queue_shop import WRITE
from gapless.db.connect import connect
from support.queue import Queue, make
from support.queue_mutants import infect

BLOCK = 4
TAGS = {("mails", 0, n): f"e{n}" for n in range(1, 2 * BLOCK + 1)}

Open = Callable[[], Connection]


class _Stage:
    """A queue of two blocks, its history, and sessions that work on it."""

    def __init__(self, dsn: str, folder: Path, stack: ExitStack) -> None:
        self._dsn = dsn
        self._stack = stack
        self.folder = folder
        self.writer = Writer(folder, "test")
        self.writer.write(Grouped(group="sender", mode="queue"))
        self.conn = self.open()
        make_tables(self.conn)
        self.queue: Queue = make(self.conn, events=2 * BLOCK, block=BLOCK)

    def open(self) -> Connection:
        return self._stack.enter_context(connect(self._dsn, role="test"))

    def write(self, conn: Connection, first: int, last: int, receipt: str | None = None) -> None:
        """Do something with events, in the session's transaction."""
        for n in range(first, last + 1):
            place = ["sender", "mails", 0, n, f"e{n}"]
            conn.execute(WRITE, [*place, "client" if receipt else "worker", receipt, False])

    def work(self, conn: Connection, hint: int | None) -> bool:
        """Be a worker for one claim."""
        conn.execute("begin")
        taken = self.queue.take(conn, hint)
        if taken.offsets is None:
            conn.execute("rollback")
            return False
        self.write(conn, *taken.offsets)
        self.queue.finish(conn, taken)
        return True

    def acknowledge(self, receipt: str, offsets: tuple[int, ...]) -> None:
        """Do something with events and say so, as a client that is told what came of it."""
        ended = "ok"
        try:
            with self.conn.transaction():
                self.write(self.conn, offsets[0], offsets[-1], receipt)
                self.queue.call(self.conn, "acknowledge", receipt)
        except psycopg.Error as error:
            if error.sqlstate != "GL003":
                raise
            ended = "lost"
        self.writer.write(
            Answered(
                client="client",
                group="sender",
                receipt=receipt,
                partition=0,
                offsets=offsets,
                how="acknowledge",
                ended=ended,  # type: ignore[arg-type]
            )
        )

    def check(self) -> list[Violation]:
        return [*find_in(gather_queues(self.conn, read(self.folder)), TAGS)]


def _two_look(stage: _Stage) -> None:
    """One looks while another one finishes, and the floor passes it."""
    one, two = stage.open(), stage.open()
    one.execute("begin")
    taken = stage.queue.take(one, 1)
    assert taken.offsets is not None

    def other() -> None:
        with suppress(psycopg.errors.UniqueViolation):
            stage.work(two, 1)

    thread = Thread(target=other)
    thread.start()
    time.sleep(0.3)
    stage.write(one, *taken.offsets)
    stage.queue.finish(one, taken)
    stage.queue.sweep(stage.conn)
    thread.join(30)


def _sweep_early(stage: _Stage) -> None:
    """The first block is in hand, the second is finished."""
    stage.queue.reserve(stage.conn, BLOCK)
    stage.work(stage.conn, BLOCK + 1)
    stage.queue.sweep(stage.conn)


def _late_answer(stage: _Stage) -> None:
    """Somebody answers with a receipt whose events another one has in hand, who answers, too."""
    old = stage.queue.reserve(stage.conn, BLOCK)[0][0]
    stage.conn.execute("select gapless.release('sender', 'mails', %s)", [old])
    while stage.work(stage.conn, BLOCK + 1):
        pass
    new = stage.queue.reserve(stage.conn, BLOCK)
    held = tuple(row[1] for row in new)
    stage.acknowledge(old, held)
    stage.acknowledge(new[0][0], held)
    stage.queue.sweep(stage.conn)


PLAYS = {
    "look before lock": (_two_look, {"job done twice"}),
    "sweep over an unfinished range": (_sweep_early, {"floor over an open job", "job lost"}),
    "acknowledge without token": (_late_answer, {"job done twice", "acknowledgement lost"}),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("is_mutant", [False, True], ids=["product", "mutant"])
@pytest.mark.parametrize("name", PLAYS)
def test_a_mutant_is_caught_and_the_product_is_clean(
    dsn: str, tmp_path: Path, name: str, is_mutant: bool
) -> None:
    play, caught_as = PLAYS[name]
    with ExitStack() as stack:
        stage = _Stage(dsn, tmp_path, stack)
        if is_mutant:
            infect(stage.conn, name)
        play(stage)
        found = stage.check()
    names = {each.name for each in found}
    assert bool(names & caught_as) == is_mutant, report(found)
    assert is_mutant or not found, report(found)
