"""A thread of the active sequencer's process that records each minute (sql: record_history).

It opens a session of its own for each minute, so that its waits for locks delay no offset.
"""

from __future__ import annotations

from typing import Any

from psycopg import Connection
from psycopg.rows import scalar_row

from gapless.db.connect import connect
from gapless.db.queries import query
from gapless.features.history.settings import HistorySettings
from gapless.worker.side_thread import SideThread
from gapless.worker.spec import SequencerSpec

_FIRST_S = 1.0
_RETRY_S = 30.0
_SLACK_S = 0.2  # the clocks of two machines do not run alike
# The server looks for a deadlock after 1 s: a person's drop_group() might be the one that fails.
_LOCK_WAIT = "select set_config('lock_timeout', '300ms', false)"


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
            conn.execute(_LOCK_WAIT)
            left_s = record(conn, self._hours)
        self.ended.wait(left_s + _SLACK_S if self._hours else None)


def record(conn: Connection[Any], keep_hours: int) -> float:
    """Record the present minute; return the seconds until the next one, by the database's clock."""
    with conn.cursor(row_factory=scalar_row) as cursor:
        found = cursor.execute(query("history", "record"), {"keep_hours": keep_hours}).fetchone()
    return float(found or 0.0)
