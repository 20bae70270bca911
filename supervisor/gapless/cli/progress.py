"""A progress bar on stderr, where that is a terminal; elsewhere nothing."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress


class Bar:
    """Shows how many bytes of how many were read (None: unknown), and how many events that is."""

    def __init__(self, title: str, bytes_total: int | None) -> None:
        self._title = title
        self._bytes_total = bytes_total
        self._rich: Progress | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._rich = _make()
            self._task = self._rich.add_task(self._title, total=self._bytes_total, events=0)
            self._rich.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._rich is not None:
            self._rich.stop()

    def show(self, events: int, bytes_read: int) -> None:
        """Show the present state."""
        if self._rich is not None:
            self._rich.update(self._task, completed=bytes_read, events=events)


class Steps:
    """Shows how many things of how many are done, with an estimate of the time left."""

    def __init__(self, title: str, total: int) -> None:
        self._title = title
        self._total = total
        self._rich: Progress | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._rich = _make_steps()
            self._task = self._rich.add_task(self._title, total=self._total)
            self._rich.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._rich is not None:
            self._rich.stop()

    def show(self, done: int) -> None:
        """Show the present state."""
        if self._rich is not None:
            self._rich.update(self._task, completed=done)


def _make_steps() -> Progress:
    from rich import progress  # noqa: PLC0415 - as below
    from rich.console import Console  # noqa: PLC0415 - as below

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def _make() -> Progress:
    # Only on a terminal: importing rich costs more than everything else here.
    from rich import progress  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.fields[events]:,} events"),
        progress.DownloadColumn(binary_units=True),
        progress.TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
