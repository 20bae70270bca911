"""The housekeeper of the log: a thread of the active sequencer's process that applies retention.

It opens a session of its own for each look, so that its waits for locks delay no offset.
"""

from __future__ import annotations

from gapless.db.connect import connect
from gapless.features.retention.chunks import HistoryRetention, apply_retention
from gapless.features.retention.settings import RetentionSettings
from gapless.worker.side_thread import SideThread
from gapless.worker.spec import SequencerSpec


class RetentionDuty(SideThread):
    """A context in which retention is applied every `retention_check_s`."""

    def __init__(self, spec: SequencerSpec) -> None:
        every_s = spec.settings.retention_check_s
        super().__init__(
            "housekeeper", "retention", first_s=every_s, then_s=every_s, retry_s=every_s
        )
        self._spec = spec

    def look(self) -> None:
        """Drop chunks whose retention is over."""
        spec, own = self._spec, self._spec.settings.of(RetentionSettings)
        keep = HistoryRetention(
            letters_s=own.dead_letter_retention_s, audit_s=own.audit_retention_s
        )
        with connect(
            spec.dsn, role="housekeeper", connect_timeout_s=spec.settings.connect_timeout_s
        ) as conn:
            for chunk in apply_retention(conn, keep):
                self.log.info("retention: dropped the events of %s", chunk)
