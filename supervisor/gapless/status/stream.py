"""`gapless status --watch --json`: a document a look, for scripts, until somebody ends it."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep
from typing import Any, NoReturn

from psycopg import Connection

from gapless.status.document import happening, to_stream_document
from gapless.status.history import History
from gapless.status.looker import Looker
from gapless.status.news import Happening
from gapless.status.snapshot import Snapshot


class Stream:
    """Turns each look into a document, with what happened since the one before."""

    def __init__(self, write: Callable[[dict[str, Any]], None]) -> None:
        self._write = write
        self._history = History()
        self._told: Happening | None = None

    def update(self, snapshot: Snapshot) -> None:
        """Write the document of a look; `happenings` is what is new: at, kind, text."""
        self._history.add(snapshot)
        document = to_stream_document(snapshot, self._history)
        self._write({**document, "happenings": [happening(each) for each in self._news()]})

    def lost(self, trouble: str) -> None:
        """Write why there is no newer look: a document with nothing but `trouble`."""
        self._write({"trouble": trouble})

    def _news(self) -> list[Happening]:
        happenings = self._history.happenings
        known = next((n for n, each in enumerate(happenings) if each is self._told), -1)
        self._told = happenings[-1] if happenings else None
        return list(happenings[known + 1 :])


def stream(
    connect: Callable[[], Connection[Any]],
    write: Callable[[dict[str, Any]], None],
    *,
    interval_s: float = 1.0,
) -> NoReturn:
    """Look and write forever. The first look's errors are raised, later ones are written."""
    with Looker(connect, Stream(write), interval_s=interval_s) as looker:
        looker.look()
        looker.due_s = monotonic() + interval_s
        while True:
            sleep(max(0.0, looker.due_s - monotonic()))
            looker.tick()
