"""A progress bar on stderr if that is a terminal; otherwise no output."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from gapless.cli.screen import remark

if TYPE_CHECKING:
    from rich.progress import Progress


class Steps:
    """A count of finished things out of a total (None: unknown), shown within the context.

    advice: printed with the count after an interruption. in_bytes: it counts bytes that are read,
    and shows their events; otherwise it counts things, and estimates the time left.
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
        """Show the present state; events: the number in the bytes that were read."""
        self._done = done
        if self._bar is not None:
            self._bar.update(self._task, completed=done, events=events)
