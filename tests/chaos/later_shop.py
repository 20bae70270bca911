"""What a run has for later: a topic that nobody else publishes into, and schedules of each policy."""

from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from gapless.log.topics import ensure_topic

TOPIC = "later"
PARTITIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """A schedule of a run: due each period_s seconds, by `every` or by a cron text."""

    name: str
    missed: str
    period_s: int
    cron: str | None = None


# What comes each 90 s may be older than a minute when it is looked at: then "skip" lets it go.
RHYTHMS = (
    Rhythm(name="pulse", missed="once", period_s=1),
    Rhythm(name="ledger", missed="all", period_s=2),
    Rhythm(name="patrol", missed="skip", period_s=90),
    Rhythm(name="minute", missed="all", period_s=60, cron="* * * * *"),
)
_ADD = """
select gapless.add_schedule(
  %s, %s, cron => %s, every => make_interval(secs => %s), missed => %s, key => %s
)
"""


def make_schedules(conn: Connection[Any]) -> None:
    """Make the topic and its schedules."""
    ensure_topic(conn, TOPIC, partitions=PARTITIONS)
    for rhythm in RHYTHMS:
        add(conn, rhythm)


def add(conn: Connection[Any], rhythm: Rhythm) -> None:
    """Add a schedule, or say once more what is so already."""
    every_s = None if rhythm.cron else rhythm.period_s
    conn.execute(_ADD, [rhythm.name, TOPIC, rhythm.cron, every_s, rhythm.missed, rhythm.name])


_DUE = """
select
  (select count(*) from gapless.scheduled where deliver_at <= gapless.clock() + interval '1 hour'),
  (select count(*) from gapless.schedule where paused_ts is null and next_due <= gapless.clock()),
  (select count(*) from chaos.wait where what = 'DELETE')
"""


def due(conn: Connection[Any]) -> tuple[bool, tuple[int, ...]]:
    """Tell whether something is due now, or soon for later; and what grows while it gets less."""
    waits, owed, ended = conn.execute(_DUE).fetchone() or (0, 0, 0)
    return bool(waits or owed), (ended,)


def rest(conn: Connection[Any]) -> None:
    """Let the schedules rest: nothing new is due from now on."""
    conn.execute("select gapless.pause_schedule(s.name) from gapless.schedule s")
