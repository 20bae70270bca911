"""The bar itself, by Rich; imported only when one is shown."""

from __future__ import annotations

from collections.abc import Callable
from os import environ

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

_BAR_WIDTH = (5, 40)
_WORDS_WIDTH = 60  # of all but the bar
_SIZE = ("COLUMNS", "LINES")
_NARROW = 72  # of a screen, in columns: below it there are words alone


class _Screen(Console):
    """Leaves the cursor as it is, so that no end, not even a kill, leaves a terminal without it."""

    def show_cursor(self, show: bool = True) -> bool:  # noqa: FBT001, FBT002 - as in Rich
        return show


class _Words(ProgressColumn):
    """One of the texts that a function returns, as they are now."""

    def __init__(self, words: Callable[[], tuple[str, ...]], number: int) -> None:
        super().__init__(Column(no_wrap=True))
        self._words = words
        self._number = number

    def render(self, task: Task) -> Text:  # noqa: ARG002 - as in Rich
        return Text(self._words()[self._number])


class _Fitted(ProgressColumn):
    """As many of these texts as the screen has room for."""

    def __init__(self, words: Callable[[], tuple[str, str, str]], screen: Console) -> None:
        super().__init__(Column(no_wrap=True))
        self._words = words
        self._screen = screen

    def render(self, task: Task) -> Text:
        return Text(fitted(task.description, *self._words(), self._screen.width))


def fitted(title: str, count: str, rate: str, left: str, width: int) -> str:
    """Join the texts; where they do not fit, the title goes first, then the rate; the end stays."""
    for parts in ((title, count, rate, left), (count, rate, left), (count, left)):
        text = " ".join(filter(None, parts))
        if len(text) <= width:
            return text
    room = width - len(left) - 2
    return f"{count[:room]}… {left}" if room > 0 else left[:width]


def make_bar(title: str, total: int | None, words: Callable[[], tuple[str, str, str]]) -> Progress:
    """Return a bar on stderr, with one task, and words behind it; it vanishes when it stops."""
    # Rich would believe a stale size in the environment.
    screen = _Screen(stderr=True, _environ={k: v for k, v in environ.items() if k not in _SIZE})
    least, most = _BAR_WIDTH
    wide = (
        TextColumn("{task.description}", markup=False),
        BarColumn(min(most, max(least, screen.width - _WORDS_WIDTH))),
        *(_Words(words, number) for number in range(3)),
    )
    bar = Progress(
        *((_Fitted(words, screen),) if screen.width < _NARROW else wide),
        console=screen,
        transient=True,
        redirect_stdout=False,  # it is data
    )
    bar.add_task(title, total=total)
    return bar
