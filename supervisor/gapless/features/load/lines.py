"""Read events from JSON lines: each line is one event, and a wrong line is named by its number."""

from __future__ import annotations

import os
import select
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gapless.errors import UsageError
from gapless.features.load.parse import LineShape, parse_line
from gapless.log.event import NewEvent

__all__ = ["JsonLines"]

LINE_BYTES_MAX = 256 * 1024 * 1024
_READ_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLine:
    """An event with the number of its line, from 1, and the position where the next line begins."""

    number: int
    end_byte: int
    event: NewEvent

    @property
    def unit(self) -> object:
        """The transaction_id in the line; None: it belongs to the publishing transaction."""
        return self.event.transaction_id


class JsonLines:
    """The events of a file or pipe, in order. Raises UsageError at the first wrong line."""

    def __init__(self, descriptor: int, name: str, shape: LineShape) -> None:
        self.name = name
        self._descriptor = descriptor
        self._shape = shape
        self._raw: deque[bytes] = deque()
        self._rest: list[bytes] = []  # the pieces of a line whose end has not been read
        self._rest_bytes = 0
        self._ended = False
        self._number = 0
        self._bytes = 0
        status = os.fstat(descriptor)
        self.bytes_total = status.st_size if stat.S_ISREG(status.st_mode) else None

    @classmethod
    @contextmanager
    def opened(cls, path: str, shape: LineShape) -> Iterator[JsonLines]:
        """Open a file for as long as the context lasts. Raises UsageError for a folder."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise UsageError(f"{path}: is a folder, not a file of JSON lines")
            yield cls(descriptor, path, shape)
        finally:
            os.close(descriptor)

    def __iter__(self) -> Iterator[JsonLine]:
        while (raw := self._next_raw()) is not None:
            self._number += 1
            self._bytes += len(raw) + 1
            if raw.strip():
                yield JsonLine(number=self._number, end_byte=self._bytes, event=self._event(raw))

    def is_ready(self, timeout_s: float) -> bool:
        """Tell whether the next line, or the end, can be read soon; a file is always ready."""
        if self._raw or self._ended:
            return True
        return bool(select.select([self._descriptor], [], [], timeout_s)[0])

    def _event(self, raw: bytes) -> NewEvent:
        try:
            text = raw.decode()
            if self._number == 1:
                text = text.removeprefix("\ufeff")
            return parse_line(text, self._shape)
        except RecursionError:
            reason = "nested too deeply"
        except UnicodeDecodeError as error:
            reason = f"not UTF-8 at byte {error.start + 1}"
        except ValueError as error:
            reason = str(error)
        raise UsageError(f"{self.name} line {self._number}: {reason}") from None

    def _next_raw(self) -> bytes | None:
        while not self._raw:
            if self._ended:
                return None
            self._fill()
        return self._raw.popleft()

    def _fill(self) -> None:
        chunk = os.read(self._descriptor, _READ_BYTES)
        if not chunk:
            self._ended = True
            if self._rest:
                self._raw.append(b"".join(self._rest))
            return
        *complete, rest = chunk.split(b"\n")
        if complete:
            complete[0] = b"".join([*self._rest, complete[0]])
            self._rest, self._rest_bytes = [], 0
            self._raw.extend(complete)
        if rest:
            self._rest.append(rest)
            self._rest_bytes += len(rest)
        if self._rest_bytes > LINE_BYTES_MAX:
            number = self._number + len(self._raw) + 1
            raise UsageError(
                f"{self.name} line {number}: longer than {LINE_BYTES_MAX} bytes; is it JSON lines?"
            )
