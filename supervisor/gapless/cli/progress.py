"""A progress bar on stderr if that is a terminal, and the work lasts; otherwise no output."""

from __future__ import annotations

import argparse
import os
import sys
from collections import deque
from threading import Lock, Timer
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Self

from gapless.cli.screen import remark
from gapless.ops.text import quantity, size_text

if TYPE_CHECKING:
    from rich.progress import Progress

AFTER_S = 0.5  # work that ends before then shows no bar
_WINDOW_S = 10.0  # of the rate
_APART_S = 0.1  # two states that tell the rate: a million lines in a second are not kept
_RATE_MIN = 0.05  # below it, a rate of one decimal is 0.0
_DAY_S = 86_400.0
_NO_SCREEN = ("dumb", "unknown")


def is_quiet(args: argparse.Namespace) -> bool:
    """Tell whether a command shows no bar: with --json, and where a program calls it."""
    return hasattr(args, "tell") or bool(getattr(args, "json", False))


class Steps:
    """A count of finished things out of a total (None: unknown), shown within the context.

    unit: the noun of a thing. in_bytes: the total is of bytes that are read, and the things in them
    are counted beside. advice: printed with the count after an interruption. is_quiet: show none.
    before: done by an earlier call, which tells nothing of the rate.
    from_first: show none before begin() or the first thing that is finished, because a child
    process that begins prints on the same terminal.
    """

    def __init__(  # noqa: PLR0913 - the parts of a bar
        self,
        title: str,
        total: int | None,
        unit: str,
        advice: str | None = None,
        *,
        in_bytes: bool = False,
        is_quiet: bool = False,
        from_first: bool = False,
        before: int = 0,
    ) -> None:
        self._title = title
        self._total = total
        self._unit = unit
        self._advice = advice
        self._in_bytes = in_bytes
        self._from_first = from_first
        self._done = self._things = before
        self._course: deque[tuple[float, int, int]] = deque()
        self._bar: Progress | None = None
        shows = not is_quiet and sys.stderr.isatty() and os.environ.get("TERM") not in _NO_SCREEN
        # A timer, for the first thing may take long; and only then: Rich costs 50 ms.
        self._timer = Timer(AFTER_S, self._begin) if shows else None
        self._beginning = Lock()

    @property
    def shows(self) -> bool:
        """Whether there is a bar, once the work has lasted."""
        return self._timer is not None

    def __enter__(self) -> Self:
        self._course.append((monotonic(), self._done, self._things))
        if not self._from_first:
            self.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timer is not None and self._timer.ident is not None:
            self._timer.cancel()
            self._timer.join()
        if self._bar is not None:
            self._bar.stop()
        if kind is KeyboardInterrupt and self._advice is not None:
            of = "" if self._total is None else f" of {self._total:,}"
            remark(f"{self._title} interrupted: {self._done:,}{of} done{self._advice}")

    def show(self, done: int, things: int = 0, total: int | None = None) -> None:
        """Show the present state; things: in the bytes that were read; total: known by now."""
        before, self._done, self._things = self._done, done, things if self._in_bytes else done
        self._total = self._total if total is None else total
        now_s = monotonic()
        if done < before:  # another one of several works
            self._course.clear()
            self._course.append((now_s, self._done, self._things))
        # A look between two steps tells nothing new: a step may last longer than the window.
        is_new = self._course[-1][1:] != (self._done, self._things)
        if is_new and now_s >= self._course[-1][0] + _APART_S:
            self._course.append((now_s, self._done, self._things))
        while len(self._course) > 2 and self._course[1][0] < now_s - _WINDOW_S:
            self._course.popleft()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, total=self._total)
        elif done:
            self.begin()

    def show_of(self, done: int, total: int) -> None:
        """Show the present state of a total that is known only now."""
        self.show(done, total=total or None)

    def words(self) -> tuple[str, str, str]:
        """Return, for people, the count, the rate and the time left; "" for what is not known."""
        if self._in_bytes:
            of = "" if self._total is None else f" of {size_text(self._total)}"
            count = f"{size_text(self._done)}{of}, {quantity(self._things, self._unit)}"
        elif self._total is None:
            count = quantity(self._done, self._unit) if self._done else ""
        else:
            count = f"{self._done:,} of {quantity(self._total, self._unit)}"
        began_s, done, things = self._course[0]
        took_s = max(monotonic() - began_s, 0.001)
        per_s = (self._things - things) / took_s
        rate = f"{per_s:,.{int(per_s < 10)}f}/s" if per_s >= _RATE_MIN else ""
        if self._total is None or self._done <= done:
            return count, rate, ""
        left_s = max(0, self._total - self._done) * took_s / (self._done - done)
        if left_s > _DAY_S:
            return count, rate, "over a day left"
        minutes, seconds = divmod(round(left_s), 60)
        hours, minutes = divmod(minutes, 60)
        clock = f"{hours}:{minutes:02}" if hours else str(minutes)
        return count, rate, f"{clock}:{seconds:02} left"

    def begin(self) -> None:
        """Show the bar, once the work has lasted; any thread may call it, and again."""
        with self._beginning:
            if self._timer is not None and self._timer.ident is None:
                self._timer.daemon = True
                self._timer.start()

    def _begin(self) -> None:
        from gapless.cli.bar import make_bar  # noqa: PLC0415 - see above

        bar = make_bar(self._title, self._total, self.words)
        bar.update(bar.task_ids[0], completed=self._done, total=self._total)
        bar.start()
        self._bar = bar
