"""Cut lines into transactions: a number of lines each, but never through a unit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from gapless.features.load.lines import JsonLine, JsonLines

_GATHERED_BYTES_MAX = 16 * 1024 * 1024
_LINGER_S = 0.05


class Batches:
    """Batches of lines, each for one database transaction; use one up before asking for the next.

    Neighbouring lines with the same transaction_id stay together, however many there are. A pause
    of a pipe ends a batch, so that the lines already read are not held back. Lines are gathered
    before a batch is given out, so that no transaction is open during a wait for a pipe; only a
    batch that is too large to gather is read while it is published.
    """

    def __init__(self, lines: JsonLines, size: int | None) -> None:
        """Cut batches of `size` lines; None: all lines in one."""
        self._source = lines
        self._lines = iter(lines)
        self._size = size
        self._ahead: JsonLine | None = None

    def __iter__(self) -> Iterator[Iterator[JsonLine]]:
        while (first := self._ahead or next(self._lines, None)) is not None:
            self._ahead = None
            if self._size is None:
                yield chain((first,), self._lines)
                return
            yield self._batch(first, self._size)

    def _batch(self, first: JsonLine, size: int) -> Iterator[JsonLine]:
        gathered, is_whole = self._gather(first, size)
        return iter(gathered) if is_whole else chain(gathered, self._rest(gathered, size))

    def _gather(self, first: JsonLine, size: int) -> tuple[list[JsonLine], bool]:
        """Return lines, and whether they are the whole batch."""
        gathered = [first]
        begin = first.end_byte
        while gathered[-1].end_byte - begin < _GATHERED_BYTES_MAX:
            if len(gathered) > size:  # only a long unit gets here
                return gathered, False
            if gathered[-1].unit is None and not self._source.is_ready(_LINGER_S):
                return gathered, True
            line = next(self._lines, None)
            if line is None:
                return gathered, True
            if self._ends(gathered[-1], line, len(gathered), size):
                self._ahead = line
                return gathered, True
            gathered.append(line)
        return gathered, False

    def _rest(self, gathered: list[JsonLine], size: int) -> Iterator[JsonLine]:
        count, last = len(gathered), gathered[-1]
        for line in self._lines:
            if self._ends(last, line, count, size):
                self._ahead = line
                return
            yield line
            count, last = count + 1, line

    @staticmethod
    def _ends(last: JsonLine, line: JsonLine, count: int, size: int) -> bool:
        return count >= size and (line.unit is None or line.unit != last.unit)
