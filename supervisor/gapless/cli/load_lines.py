"""Publish lines in batches, count what was published, and name the line that could not be."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import Connection

from gapless.cli.progress import Bar
from gapless.cli.screen import note
from gapless.db.connect import is_transient
from gapless.errors import GaplessError, PublishError, UsageError
from gapless.log.catch_up import own_xid
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.ops.load.batches import Batches
from gapless.ops.load.lines import Line, Lines
from gapless.ops.text import count

_COPY_LINE = re.compile(r"^COPY \w+, line (\d+)", re.MULTILINE)
_SHOW_EVERY_EVENTS = 500
_PROBED_EVENTS_MAX = 100  # publish() takes COPY, which names the row, for fewer than that


class Load:
    """One run over a file. `events`, `transactions` and `last_line` count what is committed.

    duplicates: lines with a dedupe_key that was there before; they are not among `events`.
    """

    def __init__(self, conn: Connection[Any], topic: str, lines: Lines, bar: Bar) -> None:
        self.events = 0
        self.duplicates = 0
        self.transactions = 0
        self.last_line = 0
        self._conn = conn
        self._topic = topic
        self._lines = lines
        self._bar = bar
        self._batch = _Batch(iter(()))
        self._commits = False  # a COMMIT was begun, and what it did is not counted yet

    def run(self, batch_size: int | None) -> int | None:
        """Publish all; `batch_size` None is one transaction. Returns the last xid with events.

        Raises UsageError at the first line that is wrong, and says what was published before it.
        """
        xid = None
        try:
            for lines in Batches(self._lines, batch_size):
                self._batch = _Batch(self._watched(lines))
                own, duplicates = self._publish(self._batch)
                if duplicates < self._batch.count:
                    xid = own
                self.duplicates += duplicates
                self.events += self._batch.count - duplicates
                self.transactions += 1
                self.last_line = self._batch.line
                self._commits = False
        except PublishError as error:
            place = f"{self._lines.name} line {self._culprit(error)}"
            raise UsageError(f"{place}: {error}; {self._so_far()}") from error
        except UsageError as error:
            raise UsageError(f"{error}; {self._so_far()}") from error
        except psycopg.Error as error:
            if not is_transient(error):
                raise
            why = " ".join(str(error).split())
            raise GaplessError(self._in_doubt(f"the connection was lost: {why}")) from error
        except KeyboardInterrupt:
            note(
                self._in_doubt("interrupted") if self._commits else f"interrupted; {self._so_far()}"
            )
            raise
        return xid

    @property
    def and_duplicates(self) -> str:
        """What is to be said of duplicates after all else; nothing when there was none."""
        return f"; {count(self.duplicates, 'duplicate')} left out" if self.duplicates else ""

    def _publish(self, batch: _Batch) -> tuple[int, int]:
        with self._conn.transaction():
            published = publish(self._conn, self._topic, batch.events())
            own, duplicates = own_xid(self._conn), getattr(published, "duplicates", 0)
            self._commits = True
        return own, duplicates

    def _watched(self, lines: Iterator[Line]) -> Iterator[Line]:
        for n, line in enumerate(lines, start=1):
            if n % _SHOW_EVERY_EVENTS == 1:
                self._bar.show(self.events + n, line.end_byte)
            yield line

    def _culprit(self, error: PublishError) -> int:
        """Return the number of the line that the server, or publish() itself, refused."""
        cause = error.__cause__
        if not isinstance(cause, psycopg.Error):
            return self._batch.line
        match = _COPY_LINE.search(cause.diag.context or "")
        return self._batch.line_of(int(match[1])) if match else self._probe()

    def _probe(self) -> int:
        """Try the events of a small batch one by one, undoing each: an INSERT names no row."""
        for line in self._batch.head:
            try:
                with self._conn.transaction(force_rollback=True):
                    publish(self._conn, self._topic, line.event)
            except PublishError:
                return line.number
        return self._batch.line

    def _so_far(self) -> str:
        if not self.events:
            return f"nothing was published{self.and_duplicates}"
        published = count(self.events, "event")
        return f"{published} published, up to line {self.last_line}; nothing after it"

    def _in_doubt(self, why: str) -> str:
        if not self._batch.count:
            return f"{why}; {self._so_far()}"
        return (
            f"{why}; {self._so_far()}, but for lines "
            f"{self._batch.first_line} to {self._batch.line}: whether they are is not known, "
            "gapless tail shows it"
        )


class _Batch:
    """Turns lines into events while it remembers which event came from which line."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self.count = 0
        self.line = 0
        self.head: list[Line] = []
        self._lines = lines
        # Where the numbering jumps (blank lines): the event's number, and its line.
        self._jumps: list[tuple[int, int]] = []

    @property
    def first_line(self) -> int:
        return self._jumps[0][1] if self._jumps else 0

    def events(self) -> Iterator[NewEvent]:
        for line in self._lines:
            self.count += 1
            if not self._jumps or line.number != self.line + 1:
                self._jumps.append((self.count, line.number))
            self.line = line.number
            if self.count <= _PROBED_EVENTS_MAX:
                self.head.append(line)
            yield line.event

    def line_of(self, event: int) -> int:
        """Return the line of the n-th event."""
        number, line = self._jumps[bisect(self._jumps, (event, 2**63)) - 1]
        return line + event - number
