"""Who is ended when the log stands still: whoever holds the sequencer's role, and nobody else."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from gapless.db.connect import connect
from support.blocked import until_blocked
from support.bystanders import bystanders
from support.twins import Twins

ROLE = "pg_advisory_lock(7427001, 3)"
STANDS_STILL = "create or replace function gapless.stands_still() returns bigint language sql as 'select 7::bigint'"


def test_the_session_that_has_the_role_is_ended(twins: Twins, module_dsn: str) -> None:
    """Not who waits for it, nor who holds something like it; and only for the run that was seen."""
    locks = {
        "nothing": (module_dsn, "1"),
        "another role": (module_dsn, "pg_advisory_lock(7427001, 4)"),
        "another kind": (module_dsn, "pg_advisory_lock(7427002, 3)"),
        "one number": (module_dsn, "pg_advisory_lock((7427001::bigint << 32) | 3)"),
        "another database": (make_conninfo(module_dsn, dbname="postgres"), ROLE),
        "a table": (module_dsn, "count(*) from gapless.sequencer"),
    }
    twins.conn.execute(STANDS_STILL)
    with ExitStack() as stack:
        # It ends last: one of its calls may wait for the others.
        pool = stack.enter_context(ThreadPoolExecutor())
        waiting, stopped, eye = (
            stack.enter_context(connect(module_dsn, role="test")) for _ in range(3)
        )
        stack.enter_context(bystanders(locks.values()))
        assert twins.value("select gapless.break_sequencer(7)") is False
        stopped.execute(f"select {ROLE}".encode())
        waits = pool.submit(waiting.execute, f"select {ROLE}".encode())
        until_blocked(eye, waiting, waits)
        assert twins.value("select gapless.break_sequencer(6)") is False
        stopped.execute("select 1")
        assert twins.value("select gapless.break_sequencer(7)") is True
        waits.result()  # it has the role now
        with pytest.raises(psycopg.OperationalError):
            stopped.execute("select 1")


def test_who_asks_is_not_ended(twins: Twins) -> None:
    twins.conn.execute(STANDS_STILL)
    twins.conn.execute("select pg_advisory_xact_lock(7427001, 3)")
    assert twins.value("select gapless.break_sequencer(7)") is False
