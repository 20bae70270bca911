"""Minutes that a real supervisor records, by itself."""

import signal
from typing import Any

import pytest
from psycopg import Connection

from support.fleet import Fleet, until
from support.records import value


@pytest.mark.long
def test_a_supervisor_records_and_forgets(fleet: Fleet, conn: Connection[Any]) -> None:
    """It records the minute in which it begins; one that is to keep none deletes all."""
    first = fleet.start("a")
    until(
        lambda: value(conn, "select count(*) from gapless.history('g', 't')") >= 1,
        "its group is in the history",
        within=fleet.logs,
    )
    first.signal(signal.SIGTERM)
    assert first.ended() == 0
    fleet.start("b", history_hours=0)
    until(
        lambda: value(conn, "select keep_hours from gapless.history_state") == 0,
        "the history is gone",
        within=fleet.logs,
    )
    assert value(conn, "select count(*) from gapless.history_series") == 0
    assert value(conn, "select count(*) from gapless.history()") == 0
