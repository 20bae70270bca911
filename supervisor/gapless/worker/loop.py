"""The worker: one session with its LISTEN and its locks, a turn for each partition it serves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any

from psycopg import Connection
from setproctitle import setproctitle

from gapless.consume.drive import Driver
from gapless.db.connect import connect
from gapless.db.listen import Notifications, listen, readable, unlisten
from gapless.resources import open_all
from gapless.worker.bells import bell_of
from gapless.worker.board import Board
from gapless.worker.leased import Leased
from gapless.worker.life import WAIT_S_MAX, is_orphan, live, settle
from gapless.worker.offspring import disown_offspring
from gapless.worker.service import Shared
from gapless.worker.session_loop import Opening, session_loop
from gapless.worker.spec import ExitCode, Pipe, WorkerSpec
from gapless.worker.wakeup import Wakeup


def run_worker(spec: WorkerSpec, pipe: Pipe, board: Board) -> None:
    """Be a worker until it serves nothing, or has no connection; then exit the process."""
    settle(spec, f"worker {spec.partition}")
    disown_offspring(f"{spec.partition.group_id}/{spec.partition.topic}", pipe.close)
    live(str(spec.partition), partial(_work, spec, pipe, board))


def _work(spec: WorkerSpec, pipe: Pipe, board: Board) -> ExitCode:
    settings = spec.settings
    timeout_s = settings.connect_timeout_s
    opening = Opening(
        connect=lambda: connect(spec.dsn, role=_role(spec), connect_timeout_s=timeout_s),
        max_processing_ms=settings.max_processing_ms,
        patience_s=timeout_s,
        statement_timeout_ms=settings.statement_timeout_ms,
    )
    conn = opening.open()
    spec.handler.habits.interruptible = False  # signals are for the supervisor
    open_all(spec.handler.resources)
    worker = _Worker(spec, pipe, board, conn)
    worker.serve(spec.lease_no, spec.partition.partition_id)
    return session_loop(worker, opening)


def _role(spec: WorkerSpec) -> str:
    if spec.partitions_max == 1:
        return f"worker {spec.partition}"
    return f"worker {spec.partition.group_id}/{spec.partition.topic}"


class _Worker:
    """Obeys its supervisor and gives turns to its partitions, the longest overdue first."""

    def __init__(self, spec: WorkerSpec, pipe: Pipe, board: Board, conn: Connection[Any]) -> None:
        self._spec = spec
        self._pipe = pipe
        self._board = board
        self._conn = conn
        self._wakeup = Wakeup()
        self._notifications = Notifications(conn)
        self._shared = Shared(spec, conn, board, self._wakeup)
        self._leased: dict[str, Leased] = {}  # by the channel of the partition
        self._untold: tuple[int, ExitCode] | None = None  # the latest service that ended
        self._drained = False

    def over(self) -> ExitCode | None:
        """Obey; when nothing is left to serve, return the exit code of the last service."""
        self._obey()
        if not self._leased:
            return self._untold[1] if self._untold else ExitCode.DRAINED
        return ExitCode.ORPHANED if is_orphan(self._spec) else None

    def next(self) -> Leased:
        """Return the next partition: first those to let go or take, then the longest overdue."""
        now = monotonic()
        return min(
            self._leased.values(),
            key=lambda leased: (leased.due_s > now or leased.is_owned, leased.due_s),
        )

    def serve(self, lease_no: int, partition_id: int) -> None:
        """Serve one more partition: wait for it, take it."""
        partition = replace(self._spec.partition, partition_id=partition_id)
        channel = bell_of(partition)
        # Before the first look at the lock: it may be released right then, and this channel tells.
        if not self._spec.is_auto:
            listen(self._conn, channel)
        self._leased[channel] = Leased(self._shared, partition, lease_no)
        self._show()

    def in_hand(self) -> Iterator[tuple[Driver, int]]:
        """Yield each driver and its Loss.draw: its epoch, which is another for the next owner."""
        for leased in self._leased.values():
            if leased.driver is not None:
                yield leased.driver, leased.driver.assignment.epoch

    def _obey(self) -> None:
        """Carry out the supervisor's orders; end of file means drain, for it is gone."""
        # Not Connection.poll(), which takes as long as everything else between two steps.
        while not self._drained and readable(0.0, self._pipe.fileno()):
            try:
                order, *words = self._pipe.recv_bytes().decode().split()
            except EOFError:
                order, words = "drain", []
            if order == "serve":
                self._tell()
                self.serve(int(words[0]), int(words[1]))
            elif order == "ring":
                self._ring(map(int, words))
            else:
                self._drained = order == "drain"
                for leased in self._leased.values():
                    if self._drained or leased.lease_no == int(words[0]):
                        leased.drop()

    def _ring(self, partition_ids: Iterable[int]) -> None:
        for each in partition_ids:
            leased = self._leased.get(bell_of(replace(self._spec.partition, partition_id=each)))
            if leased is not None:
                leased.wake()

    def hurries(self) -> bool:
        """Tell whether to hurry, without a session; other orders are left to the next session."""
        while not self._drained and self._pipe.poll():
            try:
                self._drained = not self._pipe.recv_bytes().startswith((b"serve", b"ring"))
            except EOFError:
                self._drained = True
        return self._drained or is_orphan(self._spec)

    def took(self, leased: Leased, end: ExitCode | None, /) -> None:
        """End its service if that is over; otherwise read the notifications of the others."""
        if end is not None:
            self._end(leased, end)
        elif len(self._leased) > 1:
            self._hear()  # otherwise a busy partition would keep the others asleep

    def _end(self, leased: Leased, code: ExitCode) -> None:
        """Stop serving a partition. The exit code tells of the last one, news of the others."""
        channel = bell_of(leased.partition)
        del self._leased[channel]
        self._untold = (leased.lease_no, code)
        if self._leased:
            self._tell()
            if not self._spec.is_auto:
                unlisten(self._conn, channel)
            self._show()

    def _tell(self) -> None:
        if self._untold is not None:
            lease_no, code = self._untold
            self._untold = None
            self._pipe.send_bytes(f"ended {lease_no} {code:d}".encode())

    # -- waiting ----------------------------------------------------------------------------------

    def wait(self, until_s: float) -> None:
        """Wait for an order, a notification, or the next turn that is due."""
        self._show_rest()
        if not self._hear():
            left_s = min(until_s - monotonic(), WAIT_S_MAX)
            others = self._pipe.fileno(), self._wakeup.fileno()
            readable(max(0.0, left_s), self._conn.fileno(), *others)
            self._hear()

    def _show_rest(self) -> None:
        """Show that no turn is under way; a call that hangs counts as work all the same (I8)."""
        slot = self._spec.slot
        calls = [each for each in self._leased.values() if each.oldest_s is not None]
        if calls:
            oldest = min(calls, key=lambda each: each.oldest_s or 0.0)
            self._board.begin(slot, oldest.lease_no, oldest.oldest_s)
        else:
            self._board.rest(slot)

    def _hear(self) -> bool:
        """Wake the partitions that were notified; tell whether any notification came."""
        channels = self._notifications.channels()
        rang = self._wakeup.silence()
        for channel, leased in self._leased.items():
            if channel in channels or (rang and leased.going_on):
                leased.wake()
        return bool(channels) or rang

    def nap(self, seconds: float) -> None:
        """Wait without a session; an order, or the end of the supervisor, ends the wait."""
        until_s = monotonic() + seconds
        while (left_s := until_s - monotonic()) > 0:
            self._board.rest(self._spec.slot)
            readable(min(left_s, WAIT_S_MAX), self._pipe.fileno())
            if self.hurries():
                return

    def _show(self) -> None:
        if self._spec.partitions_max > 1:
            numbers = sorted(leased.partition.partition_id for leased in self._leased.values())
            where = f"{self._spec.partition.group_id}/{self._spec.partition.topic}"
            setproctitle(f"gapless: worker {where}/{','.join(map(str, numbers))}")
