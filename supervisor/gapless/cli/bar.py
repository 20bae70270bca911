"""The bar itself, by Rich; imported only when one is shown."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

_BAR_WIDTH = (5, 40)
_WORDS_WIDTH = 60  # of all but the bar


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


def make_bar(title: str, total: int | None, words: Callable[[], tuple[str, ...]]) -> Progress:
    """Return a bar on stderr, with one task, and words behind it; it vanishes when it stops."""
    screen = _Screen(stderr=True)
    least, most = _BAR_WIDTH
    columns = [_Words(words, number) for number in range(3)]
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(min(most, max(least, screen.width - _WORDS_WIDTH))),
        *columns,
        console=screen,
        transient=True,
        redirect_stdout=False,  # it is data
    )
    bar.add_task(title, total=total)
    return bar
