"""A progress bar on stderr, where that is a terminal; elsewhere nothing."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Self

from gapless.cli.screen import remark

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn


class _Progress(ABC):
    """A bar that is there from entering to leaving the context, on a terminal."""

    def __init__(self, title: str, total: int | None) -> None:
        self._title = title
        self._total = total
        self._rich: Progress | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            # Only on a terminal: importing rich costs more than everything else here.
            from rich import progress  # noqa: PLC0415
            from rich.console import Console  # noqa: PLC0415

            self._rich = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                *self._columns(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._rich.add_task(self._title, total=self._total, events=0)
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

    @abstractmethod
    def _columns(self) -> list[ProgressColumn]:
        """Return what stands behind the bar."""


class Bar(_Progress):
    """Shows how many bytes of how many were read (None: unknown), and how many events that is."""

    def show(self, events: int, bytes_read: int) -> None:
        """Show the present state."""
        if self._rich is not None:
            self._rich.update(self._task, completed=bytes_read, events=events)

    def _columns(self) -> list[ProgressColumn]:
        from rich import progress  # noqa: PLC0415 - as above

        return [
            progress.TextColumn("{task.fields[events]:,} events"),
            progress.DownloadColumn(binary_units=True),
            progress.TimeElapsedColumn(),
        ]


class Steps(_Progress):
    """Shows how many things of how many are done, with an estimate of the time left.

    advice: said with how far it came, when it is interrupted.
    """

    def __init__(self, title: str, total: int, advice: str | None = None) -> None:
        super().__init__(title, total)
        self._advice = advice
        self._done = 0

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        if kind is KeyboardInterrupt and self._advice is not None:
            remark(
                f"{self._title} interrupted: {self._done:,} of {self._total:,} done{self._advice}"
            )

    def show(self, done: int) -> None:
        """Show the present state."""
        self._done = done
        if self._rich is not None:
            self._rich.update(self._task, completed=done)

    def _columns(self) -> list[ProgressColumn]:
        from rich import progress  # noqa: PLC0415 - as above

        return [
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
        ]
