"""take_leases(): which partitions a client lets go of and which it takes, and that it waits for nobody."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.staff import NOBODY, Staff
from support.twins import Changes

TAKE = "select gapless.take_leases(%s, 'billing', %s, %s)::text as done"
LEASE, PLACE = "lease billing orders 1", "consumer_offsets billing orders 1"
COLLEAGUE = "11111111-0000-4000-8000-000000000000"
PAUSE = "insert into gapless.group_pause (group_id, topic_id, partition_id) values ('billing', {topic}, {0})"
PAUSED = PAUSE.format(1, topic="{topic}")
IDLE = "delete from gapless.delivery where {here}"
# Ours is 1, the others have 0 and 2.
L, C = "update gapless.lease set ", "update gapless.consumer_offsets set "
AT = " where {here}"
# What is so of partition 1; which are let go of though in hand; what becomes of it.
CASES: dict[str, tuple[list[str], list[int] | None, str]] = {
    "it is his": ([], None, ""),
    "it is his, and idle": ([IDLE], None, ""),
    "to be another's": ([L + "target = {other}" + AT], None, "let go"),
    "to be another's, named": ([L + "target = {other}" + AT], [0, 1], "let go"),
    "to be another's, in hand": ([L + "target = {other}" + AT], [], ""),
    "to be another's, in hand, others named": ([L + "target = {other}" + AT], [0, 2], ""),
    "to be another's, idle": ([L + "target = {other}" + AT, IDLE], [], "let go"),
    "to be nobody's": ([L + "target = null" + AT], None, "let go"),
    "to be nobody's, in hand": ([L + "target = null" + AT], [], ""),
    "paused": ([PAUSED], None, "let go"),
    "paused, in hand": ([PAUSED], [0, 2], ""),
    "paused, idle": ([PAUSED, IDLE], [], "let go"),
    "all is paused": ([PAUSE.format(-1, topic="{topic}")], [1], "let go"),
    "a seek has the fence": ([C + "token = {other}" + AT], [], "taken"),
    "nobody has the fence": ([C + "token = null" + AT], [], "taken"),
    "an epoch is before": ([C + "epoch = 0" + AT], [], "taken"),
    "an epoch is later": ([C + "epoch = 5" + AT], [], "taken"),
    "the lease is later": ([L + "epoch = 9" + AT], [], "taken"),
    "a seek has what goes": ([C + "token = {other}" + AT, L + "target = {other}" + AT], None, "freed"),
    "a seek has what is paused": ([C + "token = {other}" + AT, PAUSED], None, "freed"),
    "nobody's": ([L + "owner = null, token = null" + AT], [], "taken"),
    "nobody's, of a later place": ([L + "owner = null, token = null" + AT, C + "epoch = 7" + AT], None, "taken"),
    "nobody's, of a later lease": ([L + "owner = null, token = null, epoch = 7" + AT], None, "taken"),
    "of one that is gone": ([L + "owner = {other}, worker_pid = 1, error = 'bad', error_ts = now()" + AT], None, "taken"),
    "of one that is there": ([L + "owner = '" + COLLEAGUE + "'" + AT], None, ""),
    "a seek has what another has": ([L + "owner = '" + COLLEAGUE + "'" + AT, C + "epoch = 4" + AT], None, ""),
    "nobody's, and paused": ([L + "owner = null, token = null" + AT, PAUSED], None, ""),
    "of one that is gone, paused": ([L + "owner = {other}" + AT, PAUSED], None, ""),
    "nobody's, to be another's": ([L + "owner = null, token = null, target = {other}" + AT], None, ""),
    "nobody's, to be nobody's": ([L + "owner = null, token = null, target = null" + AT], None, ""),
    "another's, to be another's": ([L + "owner = {other}, token = null, target = {other}" + AT], None, ""),
    "without a place": (["delete from gapless.consumer_offsets" + AT], None, "unplaced"),
    "nobody's, without a place": (
        [L + "owner = null, token = null" + AT, "delete from gapless.consumer_offsets" + AT], None, "unplaced",
    ),
    "without a place, and an error": (
        [L + "error = 'bad', owner = null" + AT, "delete from gapless.consumer_offsets" + AT], None, "",
    ),
}  # fmt: skip
UNPLACED = "the group has no row in consumer_offsets for it: gapless seek billing/orders/1 gives it a place"


def row(staff: Staff, table: str) -> dict[str, Any]:
    text = f"select to_jsonb(t) from gapless.{table} t where {staff.here()}"
    return dict(staff.rows(text)[0][0]) if staff.rows(text) else {}


def take(staff: Staff, among: list[int] | None) -> Changes:
    _, changed = staff.call(TAKE, [staff.me, staff.topic, among])
    return changed


def assert_outcome(
    staff: Staff, outcome: str, changed: Changes, before: dict[str, dict[str, Any]]
) -> None:
    """What that means for the rows of the place, whole; no other has changed."""
    lease, place = before["lease"], before["consumer_offsets"]
    expected: dict[str, dict[str, Any]] = {"lease": dict(lease), "consumer_offsets": dict(place)}
    if outcome in {"let go", "freed", "unplaced"}:
        expected["lease"] |= {"owner": None, "token": None}
    if outcome == "let go":
        expected["consumer_offsets"]["installed_offset"] = None
    elif outcome == "unplaced":
        expected["lease"]["error"] = UNPLACED
    elif outcome == "taken":
        token = row(staff, "lease")["token"]
        assert token not in {None, NOBODY, staff.fences[1]}
        fence = {"epoch": max(lease["epoch"], place["epoch"]) + 1, "token": token}
        expected["lease"] |= fence | {"owner": staff.me, "worker_pid": None, "error": None}
        expected["consumer_offsets"] |= fence | {"installed_offset": place["next_offset"]}
    for table, was in expected.items():
        now = row(staff, table)
        for each in (was, now):
            for column in ("error_ts", "acquired_ts"):
                each.pop(column, None)
        assert now == was
    touched = {LEASE} if outcome else set()
    touched |= {PLACE} if outcome in {"let go", "taken"} else set()
    units = {name for name in changed if name.startswith("delivery billing orders 1 ")}
    assert bool(units) is (
        outcome == "let go"
        and bool(staff.rows(f"select from gapless.delivery where {staff.here()}"))
    )
    assert set(changed) == touched | units


@pytest.fixture
def busy(staff: Staff) -> Staff:
    """All that is not of this group is called his as well, and is in a bad way."""
    staff.hire(COLLEAGUE)
    elsewhere = " where not ({group})"
    staff.run(L + "owner = {me}, target = {me}, token = null, epoch = 3" + elsewhere)
    staff.run("update gapless.consumer_offsets set next_offset = 7" + elsewhere)
    staff.run(
        "insert into gapless.group_pause (group_id, topic_id, partition_id)"
        " select group_id, topic_id, partition_id from gapless.lease" + elsewhere
    )
    return staff


@pytest.mark.parametrize("name", CASES)
def test_what_is_taken_and_let_go(busy: Staff, name: str) -> None:
    changes, among, outcome = CASES[name]
    busy.twins.seek(3, busy.here())
    for change in changes:
        busy.run(change)
    before = {table: row(busy, table) for table in ("lease", "consumer_offsets")}
    changed = take(busy, among)
    assert_outcome(busy, outcome, changed, before)


@pytest.mark.parametrize("group", ["billing", "mail"])
def test_what_is_so_elsewhere_is_let_alone(busy: Staff, group: str) -> None:
    """Of one group both topics, of one topic both groups: each takes its own."""
    for member, topic in (
        (busy.me, busy.topic),
        (busy.ids["mail", "other"], busy.twins.topic_ids["other"]),
    ):
        _, changed = busy.call(
            "select gapless.take_leases(%s, %s, %s, '{}')::text as done", [member, group, topic]
        )
        places = {
            name.split(" ", 1)[1].rsplit(" ", 1)[0] for name in changed if name.startswith("lease")
        }
        assert len(places) <= 1
        name = "orders" if topic == busy.topic else "other"
        assert places <= {f"{group} {name}"}


def test_several_are_taken_at_once(staff: Staff) -> None:
    """Each with a token of its own, at its own place."""
    staff.run(L + "owner = null, token = null, epoch = partition_id + 4 where {group}")
    staff.run(C + "next_offset = partition_id + 2, installed_offset = null where {group}")
    assert len(take(staff, [])) == 6
    rows = staff.rows(
        "select l.epoch, l.token = c.token, c.epoch, c.installed_offset, l.owner::text from gapless.lease l"
        f" join gapless.consumer_offsets c using (group_id, topic_id, partition_id)"
        f" where group_id = 'billing' and topic_id = {staff.topic} order by partition_id"
    )
    assert rows == [(n + 5, True, n + 5, n + 2, staff.me) for n in range(3)]
    assert staff.twins.value("select count(distinct token) from gapless.lease where epoch > 1") == 3


@contextmanager
def locked(dsn: str, table: str, where: str) -> Iterator[None]:
    """Let another session have the row."""
    with connect(dsn, role="test") as other, other.transaction(force_rollback=True):
        other.execute(f"select from gapless.{table} where {where} for update".encode())
        yield


@pytest.mark.parametrize(
    ("table", "change"),
    [("lease", PAUSED), ("consumer_offsets", PAUSED), ("consumer_offsets", L + "owner = null, token = null" + AT)],
)  # fmt: skip
def test_what_somebody_has_locked_is_left_for_the_next_time(
    staff: Staff, module_dsn: str, table: str, change: str
) -> None:
    staff.conn.execute("set local lock_timeout = '1 s'")
    with locked(module_dsn, table, staff.here()):
        staff.run(change)
        assert take(staff, None) == {}
        with staff.conn.transaction():
            staff.run(L + "owner = null, token = null where {group} and partition_id = 2")
            assert "lease billing orders 2" in take(staff, None), "the others are not"
    assert LEASE in take(staff, None)


def is_there(conn: Connection[Any], pid: int, *, gone: bool) -> bool:
    """Ask whether a session is there; one that was told to go has a while for it."""
    give_up = time.monotonic() + 20
    ask = "select 1 from pg_stat_activity, pg_stat_clear_snapshot() where pid = %s"
    while gone and conn.execute(ask, [pid]).fetchall() and time.monotonic() < give_up:
        pass
    return bool(conn.execute(ask, [pid]).fetchall())


# What the session does that was the lease's worker, while another one has the lease's lock; and who owned it.
LOCKS = {
    "it is the one": ("pg_advisory_lock(7427003, {0})", NOBODY, True),
    "of nobody": ("pg_advisory_lock(7427003, {0})", None, False),
    "that of the next lease": ("pg_advisory_lock(7427003, {0} + 1)", NOBODY, False),
    "another lock": ("pg_advisory_lock(7427009, {0})", NOBODY, False),
    "one of one number": ("pg_advisory_lock((7427003::bigint << 32) + {0})", NOBODY, False),
    "it has none": ("pg_backend_pid()", NOBODY, False),
}


@pytest.mark.parametrize("name", LOCKS)
def test_the_worker_of_one_that_is_gone_is_ended(staff: Staff, module_dsn: str, name: str) -> None:
    """Its lock says that it is still at work; who only tries the lock, or has another one, goes on."""
    lock, owner, is_ended = LOCKS[name]
    lease = staff.twins.leases["billing", "orders", 1]
    with ExitStack() as stack:
        worker, other = (stack.enter_context(_open(module_dsn)) for _ in range(2))
        worker.execute(f"select {lock.format(lease)}".encode())
        if not is_ended and owner:
            other.execute("select pg_advisory_lock(7427003, %s)", [lease])
        staff.run(
            L + "owner = %s, token = null, worker_pid = %s" + AT, [owner, worker.info.backend_pid]
        )
        assert take(staff, None) == {}
        assert is_there(staff.conn, worker.info.backend_pid, gone=is_ended) is not is_ended
        other.execute("select pg_sleep(0.002)")
        if not is_ended:
            worker.execute("select pg_sleep(0.002)")


def test_a_lock_of_another_database_is_another_one(
    staff: Staff, module_dsn: str, server_dsn: str
) -> None:
    lease = staff.twins.leases["billing", "orders", 1]
    with _open(server_dsn) as worker, _open(module_dsn) as other:
        for each in (worker, other):
            each.execute("select pg_advisory_lock(7427003, %s)", [lease])
        staff.run(
            L + "owner = {other}, token = null, worker_pid = %s" + AT, [worker.info.backend_pid]
        )
        assert take(staff, None) == {}
        worker.execute("select pg_sleep(0.002)")


@pytest.mark.parametrize("is_wanted", [True, False])
def test_who_has_the_lock_without_a_right_is_ended(
    staff: Staff, stranger: str, is_wanted: bool
) -> None:
    """When it is in the way: who takes nothing looks at no locks."""
    with _open(stranger) as other:
        pid = other.info.backend_pid
        other.execute(
            "select pg_advisory_lock(7427003, %s)", [staff.twins.leases["billing", "orders", 1]]
        )
        if is_wanted:
            staff.run(L + "owner = null, token = null" + AT)
        assert take(staff, None) == {}
        assert is_there(staff.conn, pid, gone=is_wanted) is not is_wanted
        if not is_wanted:
            other.execute("select pg_sleep(0.002)")


@contextmanager
def _open(dsn: str) -> Iterator[Connection[Any]]:
    """Open a session that may be ended by others."""
    conn = psycopg.connect(dsn, autocommit=True)
    try:
        yield conn
    finally:
        conn.close()
