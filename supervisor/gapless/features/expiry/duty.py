"""A thread of the active sequencer's process that drops expired groups and subscriptions.

It opens a session of its own for each look, so that its waits for locks delay no offset.
"""

from __future__ import annotations

from gapless.db.connect import connect
from gapless.features.expiry.stored import expire_groups, expire_subscriptions
from gapless.worker.side_thread import SideThread
from gapless.worker.spec import SequencerSpec


class ExpiryDuty(SideThread):
    """A context that looks for expired groups every `retention_check_s`."""

    def __init__(self, spec: SequencerSpec) -> None:
        every_s = spec.settings.retention_check_s
        super().__init__("expiry", "retention", first_s=every_s, then_s=every_s, retry_s=every_s)
        self._spec = spec

    def look(self) -> None:
        """Drop unused groups and subscriptions, and log them."""
        spec = self._spec
        with connect(
            spec.dsn, role="housekeeper", connect_timeout_s=spec.settings.connect_timeout_s
        ) as conn:
            for group in expire_groups(conn, spec.settings.retention_check_s):
                self.log.warning(
                    "group %s expired: it was not used; dropped with %s units that were set aside",
                    group.group_id,
                    group.set_aside,
                )
            for each in expire_subscriptions(conn, spec.settings.retention_check_s):
                self.log.warning(
                    "group %s of topic %s: %s subscriptions expired: they were not renewed",
                    each.group_id,
                    each.topic,
                    each.subscriptions,
                )
