"""The compactor: a thread of the active sequencer's process that takes events into `latest`.

On a session of its own, which it has only as long as a topic is compacted: offsets wait for nothing
here, and a database without such a topic is asked once in a while.
"""

from __future__ import annotations

from gapless.db.connect import connect
from gapless.features.compaction.latest import compact
from gapless.worker.side_thread import SideThread
from gapless.worker.spec import SequencerSpec

LOOK_S = 0.5  # while a topic is compacted, and there was nothing to do
NEW_S = 10.0  # while none is


class Compactor(SideThread):
    """A context: inside of it, compacted topics are compacted."""

    def __init__(self, spec: SequencerSpec) -> None:
        super().__init__(
            "compactor", "compaction", first_s=LOOK_S, then_s=NEW_S, retry_s=LOOK_S * 2
        )
        self._spec = spec

    def look(self) -> None:
        """Take steps as long as there is a compacted topic."""
        spec = self._spec
        timeout_s = spec.settings.connect_timeout_s
        with connect(spec.dsn, role="compactor", connect_timeout_s=timeout_s) as conn:
            while (done := compact(conn)) is not None:
                if self.ended.wait(0.0 if done else LOOK_S):
                    return
