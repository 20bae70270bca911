"""The compactor: a thread of the active sequencer's process that takes events into `latest`.

It has its own session, and only while a topic is compacted: offsets never wait for this work, and a
database without such a topic is asked only once in a while.
"""

from __future__ import annotations

from gapless.db.connect import connect
from gapless.features.compaction.latest import compact
from gapless.worker.side_thread import SideThread
from gapless.worker.spec import SequencerSpec

LOOK_S = 0.5  # while a topic is compacted, and there was nothing to do
NEW_S = 10.0  # while no topic is


class Compactor(SideThread):
    """A context in which compacted topics are compacted."""

    def __init__(self, spec: SequencerSpec) -> None:
        super().__init__(
            "compactor", "compaction", first_s=LOOK_S, then_s=NEW_S, retry_s=LOOK_S * 2
        )
        self._spec = spec

    def look(self) -> None:
        """Take steps while a topic is compacted."""
        spec = self._spec
        timeout_s = spec.settings.connect_timeout_s
        with connect(spec.dsn, role="compactor", connect_timeout_s=timeout_s) as conn:
            while (done := compact(conn)) is not None:
                if self.ended.wait(0.0 if done else LOOK_S):
                    return
