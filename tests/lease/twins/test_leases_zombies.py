"""Who is ended for holding a partition of somebody who is gone: whoever has its lock, and nobody else."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from gapless.db.connect import connect
from support.blocked import until_blocked
from support.bystanders import bystanders
from support.twins import Twins

MEMBER = (
    "insert into gapless.member (member_id, name, ttl, expires_at, backend_pid)"
    " values ('00000000-0000-0000-0000-0000000000aa', 'me', '1 hour', 'infinity', 0)"
)
LOCK = "select pg_advisory_lock_shared(7427003, %s)"


def test_the_session_that_holds_what_nobody_owns_is_ended(twins: Twins, module_dsn: str) -> None:
    """Not who waits for it, nor who asks, nor who holds something like it; and not while the owner is there."""
    lease, beside = twins.leases["billing", "orders", 1], twins.leases["billing", "orders", 2]
    locks = {
        "another partition": (module_dsn, f"pg_advisory_lock(7427003, {beside})"),
        "another kind": (module_dsn, f"pg_advisory_lock(7427002, {lease})"),
        "one number": (module_dsn, f"pg_advisory_lock((7427003::bigint << 32) | {lease})"),
        "another database": (
            make_conninfo(module_dsn, dbname="postgres"), f"pg_advisory_lock(7427003, {lease})",
        ),
        "a table": (module_dsn, "count(*) from gapless.lease"),
    }  # fmt: skip
    call = f"select gapless.break_zombie('billing', {twins.topic_ids['orders']}, 1)"
    twins.conn.execute(MEMBER)
    owned = "update gapless.lease set owner = (select member_id from gapless.member)"
    with ExitStack() as stack:
        waiting, zombie = (stack.enter_context(connect(module_dsn, role="test")) for _ in range(2))
        stack.enter_context(bystanders(locks.values()))
        zombie.execute(LOCK, [lease])
        pool = stack.enter_context(ThreadPoolExecutor())
        with twins.conn.transaction(force_rollback=True):
            twins.conn.execute(LOCK.replace("lock_", "xact_lock_"), [lease])
            waits = pool.submit(waiting.execute, "select pg_advisory_lock(7427003, %s)", [lease])
            until_blocked(twins.conn, waiting, waits)
            twins.conn.execute(owned.encode())
            assert twins.value(call) == 0
            zombie.execute("select 1")
            # Of others than the one that is meant the owner is still there.
            twins.conn.execute(f"update gapless.lease set owner = null where {twins.here()}")
            assert twins.value(call) == 1
            with pytest.raises(psycopg.OperationalError):
                for _ in range(1000):
                    zombie.execute("select pg_sleep(0.01)")
            assert twins.value(call) == 0
        waits.result()


@pytest.mark.parametrize(
    ("group", "topic", "partition"),
    [
        ("mail", "orders", 1),
        ("billing", "other", 1),
        ("billing", "orders", 0),
    ],
)
def test_who_holds_another_partition_that_nobody_owns_stays(
    twins: Twins, module_dsn: str, group: str, topic: str, partition: int
) -> None:
    with connect(module_dsn, role="test") as session:
        session.execute(LOCK, [twins.leases[group, topic, partition]])
        call = "select gapless.break_zombie('billing', %s, 1)"
        assert twins.value(call, twins.topic_ids["orders"]) == 0
        session.execute("select 1")
