"""Minutes that a real supervisor records, by itself."""

from typing import Any

import pytest
from psycopg import Connection

from support.fleet import until
from support.records import value
from support.supervisors import Runs


@pytest.mark.long
def test_a_supervisor_records_and_forgets(runs: Runs, conn: Connection[Any]) -> None:
    """It records the minute in which it begins; one that is to keep none deletes all."""
    first = runs.start("once", "ordered")
    groups = "select array_agg(distinct group_id) from gapless.history() where group_id is not null"
    until(lambda: value(conn, groups) == ["once", "ordered"], "a minute", within=runs.logs)
    assert runs.stop(first) == 0
    runs.start("ordered", environ={"GAPLESS_HISTORYHOURS": "0"})
    kept = "select keep_hours from gapless.history_state"
    until(lambda: value(conn, kept) == 0, "the history is gone", within=runs.logs)
    assert value(conn, "select count(*) from gapless.history_series") == 0
    assert value(conn, "select count(*) from gapless.history()") == 0
