"""The compactor: a thread of the active sequencer's process that takes events into `latest`.

On a session of its own, which it has only as long as a topic is compacted: offsets wait for nothing
here, and a database without such a topic is asked once in a while.
"""

from __future__ import annotations

import logging
from threading import Event, Thread
from types import TracebackType
from typing import Self

import psycopg

from gapless.db.connect import connect
from gapless.errors import GaplessError
from gapless.log.compaction import compact
from gapless.worker.spec import SequencerSpec

log = logging.getLogger("gapless.compaction")

LOOK_S = 0.5  # while a topic is compacted, and there was nothing to do
NEW_S = 10.0  # while none is


class Compactor:
    """A context: inside of it, compacted topics are compacted."""

    def __init__(self, spec: SequencerSpec) -> None:
        self._spec = spec
        self._ended = Event()

    def __enter__(self) -> Self:
        Thread(target=self._run, name="compactor", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Nobody waits for it: it may be interrupted anywhere, by a kill as well.
        self._ended.set()

    def _run(self) -> None:
        trouble = ""
        wait_s = LOOK_S
        while not self._ended.wait(wait_s):
            wait_s = NEW_S
            try:
                self._compact()
            except (psycopg.Error, GaplessError) as error:
                text = " ".join(str(error).split())
                if text != trouble:
                    log.warning("compaction: will try again: %s", text)
                trouble = text
                wait_s = LOOK_S * 2
            else:
                trouble = ""

    def _compact(self) -> None:
        """Take steps as long as there is a compacted topic."""
        spec = self._spec
        with connect(spec.dsn, role="compactor", connect_timeout_s=spec.connect_timeout_s) as conn:
            while (done := compact(conn)) is not None:
                if self._ended.wait(0.0 if done else LOOK_S):
                    return
