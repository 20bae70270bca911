"""The live console on the alternate screen, driven from outside: no thread, no loop of its own.

The supervisor forks, so it must stay single-threaded (rich's Live would refresh from a thread):
whoever drives this calls `update` with each new snapshot, and the terminal is painted then.
"""

from __future__ import annotations

import contextlib
import os
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleDimensions, RenderableType
from rich.live import Live
from rich.text import Text

from gapless.status.history import History
from gapless.status.render import Screen
from gapless.status.snapshot import Snapshot
from gapless.status.view import View

KEYS = "q quit  l lag  p partition  r rate  f group  space more"


class LiveConsole:
    """Shows the newest snapshot; use it in `with`, or call start() and stop() (both repeatable)."""

    def __init__(self, screen: Console | None = None, *, footer: str | None = None) -> None:
        """Show on `screen` (stdout's terminal if None); `footer` is the last line."""
        self.screen = screen or Console()
        self._footer = footer
        self._live: Live | None = None
        self._snapshot: Snapshot | None = None
        self._history = History()
        self._view = View()
        self._trouble: str | None = None
        self._early_notes: list[str] = []

    def start(self) -> None:
        """Take the screen over: alternate screen, no cursor."""
        if self._live is None:
            self._measure()
            self._live = Live(
                self._picture(),
                console=self.screen,
                screen=True,
                auto_refresh=False,  # MUST: it would be a thread
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start(refresh=True)

    def stop(self) -> None:
        """Give the screen back as it was, even if the terminal is gone."""
        live, self._live = self._live, None
        if live is not None:
            with contextlib.suppress(OSError):
                live.stop()

    def update(self, snapshot: Snapshot) -> None:
        """Show a new snapshot."""
        self._history.add(snapshot)
        self._snapshot = snapshot
        early, self._early_notes = self._early_notes, []
        for text in early:
            self.note(text)
        self._trouble = None
        self.redraw()

    def lost(self, trouble: str) -> None:
        """Say why there is no newer snapshot; the last one stays."""
        self._trouble = trouble
        self.redraw()

    def note(self, text: str) -> None:
        """Add a line to what happened lately, such as a warning of the log."""
        if self._snapshot is None:  # the time is the database's: wait until it is known
            self._early_notes.append(text)
        else:
            self._history.note(self._snapshot, text)

    def press(self, key: str) -> bool:
        """Act on a key; False when it means to quit."""
        if key in ("q", "Q", "\x03", "\x04"):  # with Ctrl-C and Ctrl-D where they come as keys
            return False
        groups = self._snapshot.groups if self._snapshot is not None else ()
        view = self._view.press(key, groups)
        if view != self._view:
            self._view = view
            self.redraw()
        return True

    def redraw(self) -> None:
        """Paint again, such as after the terminal's size changed."""
        if self._live is not None:
            self._measure()
            self._live.update(self._picture(), refresh=True)

    def _measure(self) -> None:
        """Ask the terminal itself: COLUMNS and LINES of the environment stay as they once were."""
        with contextlib.suppress(OSError):  # not a terminal, but a test's file
            size = os.get_terminal_size(self.screen.file.fileno())
            if size.columns and size.lines:
                self.screen.size = ConsoleDimensions(size.columns, size.lines)

    def _picture(self) -> RenderableType:
        if self._snapshot is None:
            return Text(self._trouble or "looking ...")
        return Screen(
            snapshot=self._snapshot,
            history=self._history,
            view=self._view,
            trouble=self._trouble,
            footer=self._footer,
            height=self.screen.height,
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
