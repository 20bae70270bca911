"""Did events for later and schedules meet what the run is about?"""

from collections.abc import Sequence
from typing import Any

from psycopg import Connection

from chaos.history import Cancelled, Record, select

_COUNTS = """
with promoted as (
  select w.xid, w.scheduled_xid, w.deliver_at, count(*) as events from chaos.wait w
  where w.what = 'DELETE' and w.application not like 'chaos/%' group by 1, 2, 3
)
select
  (select sum(events) from promoted),
  (select count(*) from promoted where events > 1),
  (select count(*) from (select xid from promoted group by 1 having count(*) > 1) x),
  (select count(*) from chaos.fired where events = 1),
  (select count(*) from chaos.fired where events > 1),
  (select count(*) from chaos.fired where events = 0),
  (select count(*) from chaos.fired f
    where f.events = 1 and f.name = 'pulse' and f.next_due - f.old_due > interval '1 s'),
  (select count(*) from chaos.clock_step where confirmed is not null)
"""
_COUNTED = (
    "events for later promoted",
    "units of several events promoted",
    "promotions of several units",
    "due times of schedules",
    "due times made up for together (all)",
    "due times let go (skip)",
    "due times of which the newest came (once)",
    "steps of the clock",
)


def later(conn: Connection[Any], records: Sequence[Record]) -> dict[str, int]:
    """Return how often each thing happened."""
    row = conn.execute(_COUNTS).fetchone()
    assert row is not None
    cancels = [each for each in select(records, Cancelled) if each.ended == "ok"]
    return {
        **{what: int(count or 0) for what, count in zip(_COUNTED, row, strict=True)},
        "cancels in time": sum(each.told is True for each in cancels),
        "cancels that came too late": sum(each.told is False for each in cancels),
        "cancels rolled back": sum(each.ended == "fail" for each in select(records, Cancelled)),
    }
