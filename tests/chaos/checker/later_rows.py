"""What was written down of events for later and of schedules, read from the tables and the records."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from chaos.checker.attempts import Attempt
from chaos.checker.rows import Placed, fetch
from chaos.history import Cancelled, Record, Waiting, select
from chaos.later_shop import RHYTHMS, TOPIC, Rhythm


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """An event began to wait (INSERT), or its wait was ended (DELETE), by the transaction xid.

    scheduled_xid: of the transaction that published it. began, at: when the transaction began, and when
    the row was written, in seconds on the machine's clock, as all times here.
    """

    what: str
    scheduled_id: int
    deliver_at: float
    tag: str
    scheduled_xid: str
    application: str
    xid: str
    began: float
    at: float

    @property
    def is_cancel(self) -> bool:
        return self.what == "DELETE" and self.application.startswith("chaos/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """A schedule's next due time moved from old_due_s to next_due_s, and it published so many events."""

    name: str
    old_due_s: float
    next_due_s: float
    old_last_s: float | None
    last_due_s: float | None
    events: int
    began: float
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The clock that is looked at is so much ahead of the machine's: from since to until, at most."""

    ahead: float
    since: float
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """All of it. log: of its topic, by partition, in the order of offsets. ended: when it was read."""

    attempts: dict[str, Attempt]
    said: list[Waiting]
    cancels: list[Cancelled]
    waits: list[Wait]
    fired: list[Fired]
    steps: list[Step]
    log: dict[int, list[Placed]]
    rhythms: tuple[Rhythm, ...]
    ended: float
    clock_ns: float = 0  # a time on the machine's clock = monotonic + this

    def latest(self, began: float, at: float) -> float:
        """The latest that a transaction can have taken for the time, if it looked until `at`."""
        return at + max(self._ahead(began, at))

    def earliest(self, began: float, at: float) -> float:
        """The earliest that a transaction which began then can have taken for the time."""
        return began + min(self._ahead(began, at))

    def _ahead(self, began: float, at: float) -> list[float]:
        seen = [step.ahead for step in self.steps if step.since <= at and began <= step.until]
        return seen or [0.0]


def gather_later(
    conn: Connection[Any],
    records: Sequence[Record],
    attempts: dict[str, Attempt],
    log: dict[tuple[str, int], list[Placed]],
    clock_ns: float,
) -> Later:
    """Read all there is about what was for later."""
    (ended,) = conn.execute(_ENDED).fetchone() or (0.0,)
    return Later(
        attempts=attempts,
        said=select(records, Waiting),
        cancels=select(records, Cancelled),
        waits=fetch(conn, Wait, _WAITS),
        fired=fetch(conn, Fired, _FIRED),
        steps=fetch(conn, Step, _STEPS),
        log={partition: events for (topic, partition), events in log.items() if topic == TOPIC},
        rhythms=RHYTHMS,
        ended=ended,
        clock_ns=clock_ns,
    )


_ENDED = "select extract(epoch from gapless.clock())::float8"
_WAITS = """
select w.what, w.scheduled_id, extract(epoch from w.deliver_at)::float8 as deliver_at,
  coalesce(w.tag, '') as tag, w.scheduled_xid::text as scheduled_xid, w.application, w.xid::text as xid,
  extract(epoch from w.began)::float8 as began, extract(epoch from w.at)::float8 as at
from chaos.wait w order by w.id
"""
_FIRED = """
select f.name, f.events, extract(epoch from f.old_due)::float8 as old_due_s,
  extract(epoch from f.next_due)::float8 as next_due_s, extract(epoch from f.old_last)::float8 as old_last_s,
  extract(epoch from f.last_due)::float8 as last_due_s,
  extract(epoch from f.began)::float8 as began, extract(epoch from f.at)::float8 as at
from chaos.fired f order by f.id
"""
# Before the first step the clock is the machine's.
_STEPS = """
select extract(epoch from s.ahead)::float8 as ahead, extract(epoch from s.at)::float8 as since,
  coalesce(
    extract(epoch from lead(s.confirmed) over (order by s.id))::float8, 'infinity'
  ) as until
from (
  select 0 as id, interval '0' as ahead, timestamptz '1970-01-01' as at, null::timestamptz as confirmed
  union all
  select id, ahead, at, confirmed from chaos.clock_step
) s
order by s.id
"""
