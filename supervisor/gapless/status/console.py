"""The live console: takes looks and keys from the loop that drives it, and shows the result.

A key changes the state (`press`), look and state are drawn (`draw`), the screen shows them. It has
no thread and no loop of its own: supervisors fork, and the demo has a loop already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import psycopg
from psycopg import Connection
from rich.cells import cached_cell_len
from rich.console import Console
from rich.text import Text

from gapless.errors import GaplessError
from gapless.status.draw import draw
from gapless.status.history import History
from gapless.status.keys import press, told
from gapless.status.look import snapshot
from gapless.status.past import recorded_lags
from gapless.status.terminal import Screen
from gapless.status.view import UNIT_DEPTH, At, Canvas, ConsoleState, LetterLine, Look
from gapless.status.words import ASCII, UNICODE

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Letters:
    """The actions on units set aside; the layer above implements them.

    To list, the place is (group, topic, partition); the others add the offset. show returns text,
    redrive a line about its result. They raise GaplessError and psycopg.Error.
    """

    list: Callable[[Connection[Any], At], Sequence[LetterLine]]
    show: Callable[[Connection[Any], At], str]
    redrive: Callable[[Connection[Any], At], str]


class LiveConsole:
    """Shows the newest look; use it in `with`, or call start() and stop() (both repeatable)."""

    def __init__(
        self, letters: Letters, state: ConsoleState, console: Console | None = None
    ) -> None:
        """Show on `console` (stdout's terminal if None), beginning with a state."""
        self._letters = letters
        self._screen = Screen(console or Console())
        self._state = state
        self._history = History()
        self._look: Look | None = None
        self._trouble: str | None = None
        self._early_notes: list[str] = []

    def start(self) -> None:
        """Take over the screen."""
        self._screen.open()
        self.redraw()

    def stop(self) -> None:
        """Restore the screen, even if the terminal is gone."""
        self._screen.close()

    def look(self, conn: Connection[Any]) -> None:
        """Look, carry out the wish, and show both. Raises psycopg.Error, GaplessError."""
        if self._state.wish is not None:
            self._redrive(conn, self._state.wish)
        if self._look is None:
            self._history.begin(recorded_lags(conn))
        shot = snapshot(conn)
        self._history.add(shot)
        for text in self._early_notes:
            self._history.note(shot, text)
        self._early_notes = []
        self._trouble = None
        self._look = self._opened(conn, Look(snapshot=shot, history=self._history))
        self.redraw()

    def lost(self, trouble: str) -> None:
        """Show why there is no newer look; the last one stays."""
        self._trouble = trouble
        if self._state.wish is not None:  # not later, when the person no longer expects it
            self._state = told(self._state, "not redriven: there is no connection")
        self.redraw()

    def note(self, text: str) -> None:
        """Add a line to the news, such as a warning of the log."""
        if self._look is None:  # the time is the database's: wait until it is known
            self._early_notes.append(text)
        else:
            self._history.note(self._look.snapshot, text)

    def press(self, keys: Iterable[str]) -> None:
        """Act on keys."""
        pressed = list(keys)
        for key in pressed:
            if key == "redraw":
                self._screen.forget()
            elif self._look is None:
                ends = key in ("q", "Q", "end-of-file") and not self._state.stays
                self._state = replace(self._state, has_quit=self._state.has_quit or ends)
            else:
                self._state = press(self._state, key, self._look, self._canvas())
        if pressed:
            self.redraw()

    @property
    def has_quit(self) -> bool:
        """Whether a key ended it."""
        return self._state.has_quit

    @property
    def wants_look(self) -> bool:
        """Whether the opened page, or a wish, waits for a look."""
        at, look = self._state.page.at, self._look
        is_behind = look is not None and (
            (len(at) >= UNIT_DEPTH - 1 and look.letters_at != at[:3])
            or (len(at) == UNIT_DEPTH and look.text_at != at)
        )
        return is_behind or self._state.wish is not None

    def redraw(self) -> None:
        """Show look and state as they are, in the terminal's present size."""
        if self._look is None:
            self._screen.show([Text(self._trouble or "looking ...")])
        else:
            look = replace(self._look, trouble=self._trouble)
            self._screen.show(draw(look, self._state, self._canvas()))
        cached_cell_len.cache_clear()  # it keeps the last 4096 lines: a megabyte, in an hour

    def repaint(self) -> None:
        """Write the whole picture again, for example after the terminal's size has changed."""
        self._screen.forget()
        self.redraw()

    def _canvas(self) -> Canvas:
        width, height = self._screen.measure()
        is_ascii = self._screen.console.options.ascii_only
        return Canvas(width=width, height=height, glyphs=ASCII if is_ascii else UNICODE)

    def _opened(self, conn: Connection[Any], look: Look) -> Look:
        """Add the contents of the open page: letters are read again when some have changed."""
        at, before = self._state.page.at, self._look
        place = at[: UNIT_DEPTH - 1]
        if len(place) == UNIT_DEPTH - 1:
            known = before if before is not None and before.letters_at == place else None
            letters = () if known is None else known.letters
            if known is None or _tally(known, place) != _tally(look, place):
                letters = self._asked(conn, lambda: self._letters.list(conn, place), letters)
            look = replace(look, letters_at=place, letters=letters)
        if len(at) == UNIT_DEPTH:
            text = self._asked(conn, lambda: self._letters.show(conn, at), "")
            look = replace(look, text_at=at, text=text)
        return look

    def _redrive(self, conn: Connection[Any], at: At) -> None:
        # MUST be noted first: after a connection is cut, the redrive must not be repeated.
        self._state = told(self._state, "no answer to the redrive: look whether it was done")
        done = self._asked(conn, lambda: self._letters.redrive(conn, at), None)
        if done is not None:
            self._state = told(self._state, done)

    def _asked(self, conn: Connection[Any], ask: Callable[[], T], otherwise: T) -> T:
        """Return the answer; show a refusal on the last line."""
        try:
            return ask()
        except (psycopg.Error, GaplessError) as error:
            if conn.broken:
                raise
            self._state = told(self._state, one_line(error))
            return otherwise

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _tally(look: Look, place: At) -> Sequence[int]:
    """Return the counts that change when a unit is set aside in a partition, or handled."""
    rows = (row for row in look.snapshot.partitions if row.key == place)
    return next(((row.dead_letters, row.waiting, row.parked) for row in rows), ())


def one_line(error: Exception) -> str:
    """Return the text of an error on one line."""
    return " ".join(str(error).split()) or type(error).__name__
