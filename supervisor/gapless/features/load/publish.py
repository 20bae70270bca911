"""Publish lines in batches, count the published ones, and name the line that failed."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
from psycopg import Connection

from gapless.db.connect import is_transient
from gapless.errors import GaplessError, PublishError, UsageError
from gapless.features.load.batches import Batches
from gapless.features.load.lines import JsonLine, JsonLines
from gapless.features.load.parse import LineShape, parse_line
from gapless.features.load.wait import Stored
from gapless.log.catch_up import own_xid
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.ops.text import quantity

__all__ = ["PublishedLines", "publish_lines"]

_COPY_LINE = re.compile(r"^COPY \w+, line (\d+)", re.MULTILINE)
_SHOW_EVERY_EVENTS = 500
_PROBED_EVENTS_MAX = 100  # larger batches surely use COPY, which names the row


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedLines:
    """The committed part of a file: events and their transactions, up to last_line, from 1.

    duplicates: lines with a dedupe_key that was there before; they are not among `events`. xid: of
    the last transaction that stored an event; None: there was none. transaction_ids: the ids under
    which all of these events can be found, in order, including those of duplicates with a
    transaction_id of their own.
    """

    events: int
    transactions: int
    duplicates: int
    last_line: int
    xid: int | None
    transaction_ids: Collection[UUID] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedText:
    """One event that was published under this transaction_id, or the duplicate of such an event.

    events, transactions: 1, of a duplicate 0. scheduled_ids: the event's number, if it waits for
    its time.
    """

    transaction_id: UUID
    events: int
    transactions: int
    duplicate: bool
    scheduled_ids: Sequence[int]


def publish_text(
    conn: Connection[Any], topic: str, text: str, shape: LineShape
) -> tuple[PublishedText, Stored]:
    """Publish the event in a text, in a transaction; return also the stored event to wait for.

    Raises UsageError for a text that is no event.
    """
    try:
        event = parse_line(text, shape)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "nested too deeply"
        raise UsageError(f"the payload is {reason}; text needs quotes: '\"like this\"'") from None
    with conn.transaction():
        published = publish(conn, topic, event)
        xid = own_xid(conn)
    transaction_id = UUID(str(published))
    duplicate = getattr(published, "duplicate", False)
    scheduled = list(getattr(published, "scheduled_ids", ()))
    number = 0 if duplicate else 1
    done = PublishedText(
        transaction_id=transaction_id,
        events=number,
        transactions=number,
        duplicate=duplicate,
        scheduled_ids=scheduled,
    )
    # A scheduled event has no offset for now; a duplicate will never be sequenced.
    ids = [] if duplicate and not scheduled else [transaction_id]
    return done, Stored(xid=None if duplicate or scheduled else xid, transaction_ids=ids)


def publish_lines(
    conn: Connection[Any],
    topic: str,
    lines: JsonLines,
    *,
    batch_lines: int | None = 1000,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> PublishedLines:
    """Publish the events of a file or pipe, in order, several in a transaction.

    batch_lines: events of a transaction; neighbours with one transaction_id stay together; None:
    all in one. progress: is called during the reading with the numbers of events and bytes read so
    far. Raises UsageError at the first wrong line, GaplessError when the connection is lost; both
    say how much was published before. So does the note of a KeyboardInterrupt.
    """
    return _Load(conn, topic, lines, progress).run(batch_lines)


class _Load:
    """One run over a file: counts the committed lines."""

    def __init__(
        self,
        conn: Connection[Any],
        topic: str,
        lines: JsonLines,
        progress: Callable[[int, int], None],
    ) -> None:
        self._done = PublishedLines(events=0, transactions=0, duplicates=0, last_line=0, xid=None)
        self._conn = conn
        self._topic = topic
        self._lines = lines
        self._progress = progress
        self._batch = _Batch(iter(()))
        self._ids: dict[UUID, None] = {}
        self._commits = False  # a COMMIT was begun, and its result is not counted yet

    def run(self, batch_lines: int | None) -> PublishedLines:
        try:
            for lines in Batches(self._lines, batch_lines):
                self._batch = _Batch(self._watched(lines))
                self._done = self._after(*self._publish(self._batch))
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
        except KeyboardInterrupt as stop:
            stop.add_note(
                self._in_doubt("interrupted") if self._commits else f"interrupted; {self._so_far()}"
            )
            raise
        return self._done

    def _after(self, xid: int, duplicates: int) -> PublishedLines:
        """Return the totals after the batch."""
        before, batch = self._done, self._batch
        return PublishedLines(
            events=before.events + batch.count - duplicates,
            transactions=before.transactions + 1,
            duplicates=before.duplicates + duplicates,
            last_line=batch.line,
            xid=xid if duplicates < batch.count else before.xid,
            transaction_ids=self._ids.keys(),
        )

    def _publish(self, batch: _Batch) -> tuple[int, int]:
        with self._conn.transaction():
            published = publish(self._conn, self._topic, batch.events())
            own, duplicates = own_xid(self._conn), getattr(published, "duplicates", 0)
            self._commits = True
        self._ids |= batch.transaction_ids
        if batch.names_none and duplicates < batch.count:
            self._ids[UUID(str(published))] = None
        return own, duplicates

    def _watched(self, lines: Iterator[JsonLine]) -> Iterator[JsonLine]:
        for n, line in enumerate(lines, start=1):
            if n % _SHOW_EVERY_EVENTS == 1:
                self._progress(self._done.events + n, line.end_byte)
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
        done = self._done
        if not done.events:
            left_out = quantity(done.duplicates, "duplicate")
            return "nothing was published" + (f"; {left_out} left out" if done.duplicates else "")
        published = quantity(done.events, "event")
        return f"{published} published, up to line {done.last_line}; nothing after it"

    def _in_doubt(self, why: str) -> str:
        if not self._batch.count:
            return f"{why}; {self._so_far()}"
        return (
            f"{why}; {self._so_far()}, but for lines "
            f"{self._batch.first_line} to {self._batch.line}: whether they are is not known, "
            "gapless tail shows it"
        )


class _Batch:
    """Turns lines into events and remembers the line of each event."""

    def __init__(self, lines: Iterator[JsonLine]) -> None:
        self.count = 0
        self.line = 0
        self.head: list[JsonLine] = []
        self.transaction_ids: dict[UUID, None] = {}  # named by events
        self.names_none = False  # some event names none
        self._lines = lines
        # Jumps in the numbering (blank lines): the event's number, and its line.
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
            if line.event.transaction_id is None:
                self.names_none = True
            else:
                self.transaction_ids[UUID(str(line.event.transaction_id))] = None
            yield line.event

    def line_of(self, event: int) -> int:
        """Return the line of the n-th event."""
        number, line = self._jumps[bisect(self._jumps, (event, 2**63)) - 1]
        return line + event - number
