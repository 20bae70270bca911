"""A progress bar on stderr, where that is a terminal; elsewhere nothing."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from gapless.cli.screen import remark

if TYPE_CHECKING:
    from rich.progress import Progress


class Steps:
    """Shows how many of how many are done (None: unknown), from entering to leaving the context.

    advice: said with how far it came, when it is interrupted. in_bytes: bytes are counted, which
    are read, and how many events that is; else things, with an estimate of the time left.
    """

    def __init__(
        self, title: str, total: int | None, advice: str | None = None, *, in_bytes: bool = False
    ) -> None:
        self._title = title
        self._total = total
        self._advice = advice
        self._in_bytes = in_bytes
        self._done = 0
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            # Only on a terminal: importing rich costs more than everything else here.
            from rich import progress  # noqa: PLC0415
            from rich.console import Console  # noqa: PLC0415

            text, bar, taken = progress.TextColumn, progress.BarColumn(), progress.TimeElapsedColumn
            columns = (
                [
                    text("{task.fields[events]:,} events"),
                    progress.DownloadColumn(binary_units=True),
                    taken(),
                ]
                if self._in_bytes
                else [progress.MofNCompleteColumn(), taken(), progress.TimeRemainingColumn()]
            )
            console = Console(stderr=True)
            self._bar = progress.Progress(
                text("{task.description}"), bar, *columns, console=console, transient=True
            )
            self._task = self._bar.add_task(self._title, total=self._total, events=0)
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if kind is KeyboardInterrupt and self._advice is not None:
            remark(
                f"{self._title} interrupted: {self._done:,} of {self._total:,} done{self._advice}"
            )

    def show(self, done: int, events: int = 0) -> None:
        """Show the present state; events: of bytes that were read."""
        self._done = done
        if self._bar is not None:
            self._bar.update(self._task, completed=done, events=events)
