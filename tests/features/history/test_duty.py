"""Minutes that a real supervisor records, by itself."""

from collections.abc import Callable
from typing import Any

import pytest
from psycopg import Connection

from features.history.minutes import now, read, record
from support.fleet import until
from support.gateways import Client
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


def test_a_gateway_records_where_no_supervisor_is(
    conn: Connection[Any], orders: None, open_gateway: Callable[..., Client]
) -> None:
    """An outage of all supervisors is in the charts; minutes are kept as long as they were before."""
    record(conn, now(conn) - 60, 48)
    open_gateway()
    until(lambda: len(read(conn)) > 1, "a minute of the outage is recorded")
    assert value(conn, "select keep_hours from gapless.history_state") == 48
