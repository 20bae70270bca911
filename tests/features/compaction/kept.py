"""A compacted topic, and what a test asks of it."""

from dataclasses import dataclass
from time import monotonic
from typing import Any

from gapless.features.retention.chunks import HistoryRetention, apply_retention
from gapless.log.event import NewEvent
from support.chunks import next_chunk
from support.patience import bounded_patience
from support.world import World

DELETED = None
Fold = dict[str, tuple[int, int, Any]]


@dataclass
class Kept:
    """A world whose topic is compacted; nobody moves the compactor but `compact()`."""

    world: World

    def put(self, *pairs: tuple[str | None, Any], **fields: Any) -> None:
        """Publish each (key, value) as a unit of its own, in that order."""
        for key, value in pairs:
            self.world.events([NewEvent(payload=value, key=key, **fields)])

    def compact(self, events_max: int = 1000) -> int:
        """Take steps until there is nothing to do; return how many took in something."""
        steps = 0
        while self.world.value("select gapless.compact(%s)", events_max):
            steps += 1
        return steps

    def latest(self) -> Fold:
        """What is kept: partition, offset and value of each key."""
        return {
            row[0]: tuple(row[1:])
            for row in self.world.rows(
                "select event_key, partition_id, c_offset, payload from gapless.latest(%s)",
                self.world.topic.name,
            )
        }

    def fold(self) -> Fold:
        """What should be kept: the last of each key in the log, in the order of publishing."""
        found: Fold = {}
        for key, *rest in self.world.rows(
            "select r.key, p, r.c_offset, r.payload from gapless.topic t"
            " cross join lateral generate_series(0, greatest(t.partitions, t.partitions_ever) - 1) p"
            " cross join lateral gapless.read(t.name, p, 1, null) r"
            " where t.name = %s and r.key is not null order by r.message_id",
            self.world.topic.name,
        ):
            found.pop(key, None)
            if rest[-1] is not None:
                found[key] = tuple(rest)
        return found

    def info(self) -> Any:
        """The row of the view compactions, by name."""
        row = self.world.rows(
            "select to_json(c) from gapless.compactions c where c.topic = %s", self.world.topic.name
        )
        return row[0][0] if row else None

    def drop(self) -> list[str]:
        """Let retention drop all that may go of what was published."""
        self.complete()
        return apply_retention(self.world.conn, HistoryRetention(letters_s=1, audit_s=1))

    def complete(self) -> None:
        """Let all that was published be old enough to go, and its chunks be complete."""
        next_chunk(self.world.conn)
        self.world.conn.execute(
            "update gapless.topic set retention = interval '1 microsecond' where name = %s",
            [self.world.topic.name],
        )
        # Complete once no transaction is open that began before, whosever: some runs later.
        began = monotonic()
        while not self.world.value("select closed_upto > 1 from gapless.retention_state"):
            assert monotonic() - began < bounded_patience(60.0), "the chunk is never complete"
            self.put((None, "is in the next chunk"))
            self.world.value("select gapless.close_chunks()")
