"""Scrapes of groups at work."""

from psycopg import Connection

from support.fleet import until
from support.watched import Scrape, Watched

_PASSED = "select coalesce(sum(next_offset - 1), 0) from gapless.consumer_offsets"


def until_passed(conn: Connection, events: int, watched: Watched) -> None:
    until(
        lambda: (conn.execute(_PASSED).fetchone() or [0])[0] >= events,
        f"{events} passed",
        within=watched.log,
    )


def scrape_of_groups(watched: Watched) -> Scrape:
    """One from a look, every 5 s, that saw how far the group is: the first may have come too soon."""
    return until(
        lambda: (now := watched.scrape()).samples.get("gapless_lag_seconds") and now,
        "a look that saw the group",
        within=watched.log,
    )
