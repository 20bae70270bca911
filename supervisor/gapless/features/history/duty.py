"""A thread of the active sequencer's process that records each minute (sql: record_history).

It opens a session of its own for each minute, so that its waits for locks delay no offset.
"""

from __future__ import annotations

from gapless.db.connect import connect
from gapless.features.history.record import record
from gapless.features.history.settings import HistorySettings
from gapless.worker.side_thread import SideThread
from gapless.worker.spec import SequencerSpec

_FIRST_S = 1.0
_RETRY_S = 30.0


class HistoryDuty(SideThread):
    """A context in which each minute is recorded, soon after it began."""

    def __init__(self, spec: SequencerSpec) -> None:
        super().__init__("history", "history", first_s=_FIRST_S, then_s=0.0, retry_s=_RETRY_S)
        self._spec = spec
        self._hours = spec.settings.of(HistorySettings).history_hours

    def look(self) -> None:
        """Record this minute, unless another one has done so; return when the next one begins."""
        spec = self._spec
        with connect(
            spec.dsn, role="history", connect_timeout_s=spec.settings.connect_timeout_s
        ) as conn:
            left_s = record(conn, self._hours)
        self.ended.wait(left_s if self._hours else None)
