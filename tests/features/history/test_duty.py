"""Minutes that a real supervisor records, by itself."""

from time import monotonic
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from features.history.minutes import now, record
from gapless.db.connect import connect
from gapless.features.history.duty import HistoryDuty
from gapless.settings import Settings
from gapless.worker.spec import SequencerSpec
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


def test_it_gives_way_to_a_group_that_is_being_dropped(
    conn: Connection[Any], dsn: str, orders: None
) -> None:
    """It waits less than the time after which the server looks for a deadlock, and ends one."""
    record(conn, now(conn) - 5)
    spec = SequencerSpec(dsn=dsn, supervisor_pid=0, close_fds=(), slot=0, settings=Settings())
    with connect(dsn, role="other") as other, other.transaction():
        other.execute("select gapless.drop_group('billing')")
        began_s = monotonic()
        with pytest.raises(psycopg.errors.LockNotAvailable):
            HistoryDuty(spec).look()
        assert monotonic() - began_s < 3
