"""The two consumer groups of the demo: their writes commit together with their offset (I6).

For `gapless run` they are flights.handlers:punctuality and flights.handlers:positions. Each first
notes which offsets it was given, in a ledger that would take an event twice, and then writes its
table. A refused unit leaves nothing behind, not even its lines in the ledger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gapless

from .effects import last_sighting, tally  # noqa: TID252 - see __init__.py: two package names
from .queries import query  # noqa: TID252

if TYPE_CHECKING:
    from psycopg import Connection

    from gapless import Unit


@gapless.handler(topic="flights", group="punctuality")
def punctuality(unit: Unit, conn: Connection[Any]) -> None:
    """Keep a table of how punctual each carrier was on each day."""
    note("punctuality", unit, conn)
    conn.execute(query("add_to_punctuality"), tally(unit)._asdict())


@gapless.handler(topic="flights", group="positions")
def positions(unit: Unit, conn: Connection[Any]) -> None:
    """Keep where each aircraft was seen last; refuse flights that cannot be placed.

    Last by the time of the event, not by its offset: producers run side by side, so a flight of
    the evening may be published before one of the morning.
    """
    note("positions", unit, conn)
    seen = last_sighting(unit)
    if seen is not None:
        conn.execute(query("keep_newest"), seen._asdict() | {"partition_id": unit.partition})


def note(group: str, unit: Unit, conn: Connection[Any]) -> None:
    """Write one line for each event into the ledger."""
    handled = {
        "group_id": group,
        "partition_id": unit.partition,
        "first_offset": unit.first_offset,
        "last_offset": unit.last_offset,
    }
    conn.execute(query("note_handled"), handled)
