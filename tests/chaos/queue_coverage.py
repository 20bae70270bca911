"""Did the queue groups meet what the run is about?"""

from collections.abc import Sequence
from typing import Any

from psycopg import Connection

from chaos.history import Answered, Record, select

_COUNTS = """
select
  (select count(*) from chaos.job where group_id = 'sender' and who = 'worker'),
  (select count(*) from chaos.job where group_id = 'caller' and who = 'worker'),
  (select count(*) from chaos.job where who <> 'worker'),
  (select count(*) from chaos.queue_change where tries > 1),
  (select count(*) from chaos.queue_change where what = 'floor')
"""
_COUNTED = (
    "jobs of exactly-once workers",
    "jobs of at-least-once workers",
    "jobs of SQL clients",
    "jobs given out again",
    "floors of queue groups",
)


def queues(conn: Connection[Any], records: Sequence[Record]) -> dict[str, int]:
    """Return how often each thing happened."""
    row = conn.execute(_COUNTS).fetchone()
    assert row is not None
    said = [each for each in select(records, Answered) if each.ended == "ok"]
    ways = ("acknowledge", "release", "reject", "extend", "forget")
    return {
        **dict(zip(_COUNTED, row, strict=True)),
        **{f"receipts: {how}": sum(each.how == how for each in said) for how in ways},
        "receipts acknowledged too late, and refused": sum(
            each.ended == "lost" for each in select(records, Answered)
        ),
        "receipts acknowledged too late, and nobody had taken it": sum(each.late for each in said),
    }
