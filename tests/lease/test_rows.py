"""When a lease may be taken, a fence put in place, and a plan made; and what is said of rows that are wrong.

Two groups consume two topics of four partitions each, and everything is the same everywhere, so what is
looked at in a row elsewhere shows. Each test is taken back.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect

ME, YOU, GONE, STRANGER = UUID(int=10), UUID(int=11), UUID(int=12), UUID(int=13)
TOKEN, OTHER = UUID(int=20), UUID(int=21)
SETUP = f"""
select gapless.create_topic(t, 4) from unnest('{{other,orders}}'::text[]) t;
select gapless.create_group(g, t) from unnest('{{other,orders}}'::text[]) t, unnest('{{billing,mail}}'::text[]) g;
insert into gapless.member (member_id, name, ttl, expires_at, backend_pid)
values ('{ME}', 'me', '1 hour', 'infinity', 0), ('{YOU}', 'you', '1 hour', 'infinity', 0),
  ('{STRANGER}', 'stranger', '1 hour', 'infinity', 0);
insert into gapless.member_group select m.member_id, g.group_id, g.topic_id
from gapless.member m, gapless.consumer_group g where m.name <> 'stranger';
update gapless.lease set target = case when partition_id % 2 = 0 then '{ME}' else '{YOU}' end::uuid,
  epoch = 5, token = '{TOKEN}';
select set_config('gapless.seeking', pg_current_xact_id()::text, true);
update gapless.consumer_offsets set epoch = 5, token = '{TOKEN}', installed_offset = 1;
update gapless.consumer_group set planned_for = array['{ME}', '{YOU}']::uuid[];
"""
LEASE = "update gapless.lease set {} where {{here}};"
FENCE = "update gapless.consumer_offsets set {} where {{here}};"


class Leases:
    """The place that is meant, billing/orders/2, and fifteen others; all that a test does is taken back."""

    def __init__(self, conn: Connection[Any]) -> None:
        self.conn = conn
        with conn.transaction():
            conn.execute(SETUP)  # type: ignore[arg-type]
        self.topic_id = int(self.value("select gapless.topic_id('orders')"))
        self.place = f"'billing', {self.topic_id}, 2"

    def value(self, statement: str) -> Any:
        row = self.conn.execute(statement).fetchone()  # type: ignore[arg-type]
        return None if row is None else row[0]

    def all(self, statement: str) -> list[Any]:
        return self.conn.execute(statement).fetchall()  # type: ignore[arg-type]

    def run(self, statements: str) -> None:
        """Run statements in which {here}, {group} and {orders} stand for what is meant."""
        group = f"group_id = 'billing' and topic_id = {self.topic_id}"
        words = {"here": f"{group} and partition_id = 2", "group": group, "orders": self.topic_id}
        self.conn.execute("select set_config('gapless.seeking', pg_current_xact_id()::text, true)")
        if statements:
            self.conn.execute(statements.format(**words))  # type: ignore[arg-type]

    def rows(self) -> set[str]:
        """All that leases, fences and groups say."""
        return {
            row
            for table in ("lease", "consumer_offsets", "consumer_group")
            for (row,) in self.all(f"select to_jsonb(t)::text from gapless.{table} t")
        }


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Leases]:
    with connect(module_dsn, role="test") as conn:
        yield Leases(conn)


@pytest.fixture
def world(shared: Leases) -> Iterator[Leases]:
    """The same at the begin of each test."""
    with shared.conn.transaction(force_rollback=True):
        yield shared


# What is so, and whether ME gets the lease.
ACQUIRES: dict[str, tuple[str, bool]] = {
    "it is free": ("", True),
    "it is mine": (LEASE.format(f"owner = '{ME}'"), True),
    "it is planned for another": (LEASE.format(f"target = '{YOU}'"), False),
    "it is planned for nobody": (LEASE.format("target = null"), False),
    "another one has it": (LEASE.format(f"owner = '{YOU}'"), False),
    "one who is gone has it": (LEASE.format(f"owner = '{GONE}'"), True),
    "I am gone": (f"delete from gapless.member where member_id = '{ME}'", False),
    "I am gone, and had it": (
        LEASE.format(f"owner = '{ME}'") + f"delete from gapless.member where member_id = '{ME}'", False,
    ),
    "it is paused": ("select gapless.pause('billing', 'orders', 2)", False),
    "the group is paused": ("select gapless.pause('billing', 'orders')", False),
    "others are paused": (
        ("select gapless.pause('billing', 'orders', 1), gapless.pause('mail', 'orders', 2),"
        " gapless.pause('billing', 'other', 2)"),
        True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ACQUIRES)
def test_who_gets_a_lease(world: Leases, name: str) -> None:
    statements, gets = ACQUIRES[name]
    world.run(LEASE.format("error = 'no', error_ts = now()") + statements)
    before = world.rows()
    assert world.value(f"select gapless.acquire({world.place}, '{ME}', '{OTHER}')") == (
        6 if gets else None
    )
    assert len(before - world.rows()) == gets
    found = world.all(
        "select owner, token, error, error_ts, worker_pid = pg_backend_pid() from gapless.lease"
        " where token = '00000000-0000-0000-0000-000000000015'"
    )
    assert found == ([(ME, OTHER, None, None, True)] if gets else [])


# The fence that is there, the one that is put there, and whether it is; then, if it was left uncleanly.
FENCES: dict[str, tuple[str, int, UUID, bool | None]] = {
    "a newer one": ("", 6, OTHER, True),
    "a newer one, after a clean end": (FENCE.format("installed_offset = null"), 6, OTHER, False),
    "the same": ("", 5, TOKEN, True),
    "as new, of another": ("", 5, OTHER, None),
    "an older one": ("", 4, OTHER, None),
    "where there was none": (FENCE.format("epoch = 0, token = null, installed_offset = null"), 1, OTHER, False),
}  # fmt: skip


@pytest.mark.parametrize("name", FENCES)
def test_which_fence_is_put_in_place(world: Leases, name: str) -> None:
    statements, epoch, token, unclean = FENCES[name]
    world.run(statements + FENCE.format("next_offset = 3"))
    before = world.rows()
    assert (
        world.value(f"select gapless.install_fence({world.place}, {epoch}, '{token}')") is unclean
    )
    assert len(before - world.rows()) == (unclean is not None)
    if unclean is not None:
        query = "select epoch, token, installed_offset from gapless.consumer_offsets where next_offset = 3"
        assert world.all(query) == [(epoch, token, 3)]


def test_there_is_no_fence_without_a_row(world: Leases) -> None:
    world.run("delete from gapless.consumer_offsets where {here}")
    with pytest.raises(psycopg.Error, match="no row") as found:
        world.value(f"select gapless.install_fence({world.place}, 6, '{OTHER}')")
    assert found.value.sqlstate == "GL410"


@pytest.mark.parametrize("owner", [ME, YOU])
def test_who_gives_up_a_lease_had_it(world: Leases, owner: UUID) -> None:
    world.run(f"update gapless.lease set owner = '{owner}', worker_pid = 1")
    before = world.rows()
    world.value(f"select gapless.disown('{ME}', {world.place})")
    assert len(before - world.rows()) == (owner == ME)
    left = world.all(
        "select owner, worker_pid from gapless.lease where owner is null or worker_pid is null"
    )
    assert left == ([(None, None)] if owner == ME else [])


PASSED = "update gapless.consumer_offsets set passed = 1 where not ({here});"
LOG = """
insert into gapless.log_segment (topic_id, partition_id, base_offset, last_offset, message_ids, unit_ends, run)
values ({{orders}}, {}, 1, 2, '{{{{7,8}}}}', '01', 1);
"""
LETTER = """
insert into gapless.dead_letter (group_id, topic_id, partition_id, first_offset, last_offset, events,
  transaction_id, state, attempts, next_attempt_ts, reason, exception)
values ('{}', {{orders}}, {}, 1, 1, 1, gen_random_uuid(), 'waiting', 1, clock_timestamp() + interval '{} s', '', '');
"""
# What is so, and whether the partition's worker has something to do: no other one has.
DUE: dict[str, tuple[str, bool]] = {
    "nothing": ("", False),
    "an event": (LOG.format(2), True),
    "an event of another partition": (LOG.format(3), False),
    "all is handled": (LOG.format(2) + FENCE.format("next_offset = 3"), False),
    "all but one": (LOG.format(2) + FENCE.format("next_offset = 2"), True),
    "it is beyond the end": (FENCE.format("next_offset = 4"), True),
    "it was stopped there": (FENCE.format("stopped_at = 1"), True),
    "another layout": (
        "update gapless.topic set layout = 1 where topic_id = {orders};" + PASSED,
        True,
    ),
    "a unit is due": (LETTER.format("billing", 2, -1), True),
    "a unit is due later": (LETTER.format("billing", 2, 600), False),
    "a unit of another group is due": (LETTER.format("mail", 2, -1), False),
    "a unit of another partition is due": (LETTER.format("billing", 3, -1), False),
    "another one's fence": (FENCE.format(f"token = '{OTHER}'"), True),
    "another epoch's fence": (FENCE.format("epoch = 6"), True),
    "the row is gone": ("delete from gapless.consumer_offsets where {here}", True),
    "it is another one's": (LOG.format(2) + LEASE.format(f"owner = '{YOU}'"), False),
    "it is nobody's": (LOG.format(2) + LEASE.format("owner = null"), False),
}  # fmt: skip


@pytest.mark.parametrize("name", DUE)
def test_whose_workers_have_something_to_do(world: Leases, name: str) -> None:
    statements, is_due = DUE[name]
    world.run(f"update gapless.lease set owner = '{ME}' where {{group}} and partition_id < 3")
    world.run(statements)
    lease_no = world.value(
        "select lease_no from gapless.lease where (group_id, topic_id, partition_id)"
        f" = ({world.place})"
    )
    before = world.rows()
    assert world.value(f"select gapless.due_leases('{ME}')") == ([lease_no] if is_due else None)
    assert world.rows() == before


# The token, what is there, what is said, and what is there then.
ERRORS: dict[str, tuple[UUID, str | None, str | None, str | None, bool]] = {
    "one": (TOKEN, None, "why", "why", True),
    "another": (TOKEN, "old", "why", "why", True),
    "the same": (TOKEN, "why", "why", "why", False),
    "none": (TOKEN, "why", None, None, True),
    "none again": (TOKEN, None, None, None, False),
    "of a former owner": (OTHER, "old", "why", "old", False),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_what_stops_a_partition_is_said_by_its_owner(world: Leases, name: str) -> None:
    token, old, said, after, changes = ERRORS[name]
    params = [old, old]
    world.conn.execute(
        "update gapless.lease set error = %s, error_ts = case when %s::text is not null then '2001-01-01Z'::timestamptz end",
        params,
    )
    before = world.rows()
    world.conn.execute(
        f"select gapless.report_error({world.place}, %s, %s)",
        [token, said],  # type: ignore[arg-type]
    )
    assert len(before - world.rows()) == changes
    row = world.conn.execute(
        "select error, error_ts is not null, coalesce(error_ts > '2001-01-02Z', false) from gapless.lease"
        " where group_id = 'billing' and topic_id = %s and partition_id = 2",
        [world.topic_id],
    ).fetchone()
    # An error that follows another one stands since the first.
    assert row == (after, after is not None, old is None and after is not None)


# What is so, and what check_leases() says of it: the invariant, the place, and the problem.
PLACE = "billing/orders/2"
CHECKS: dict[str, tuple[str, list[tuple[str, str | None, str]]]] = {
    "nothing": ("", []),
    "a fence that is ahead": (
        FENCE.format("epoch = 6"), [("S5", PLACE, "the fence has epoch 6, the lease only 5")],
    ),
    "a fence that is behind": (FENCE.format(f"epoch = 4, token = '{OTHER}'"), []),
    "two owners": (FENCE.format(f"token = '{OTHER}'"), [("S6", PLACE, "epoch 5 is of two owners")]),
    "no offset": (
        "delete from gapless.consumer_offsets where {here}", [("S6", PLACE, "a lease without an offset")],
    ),
    "no lease": ("delete from gapless.lease where {here}", [("S6", None, "a lease without an offset")]),
    "no lease for what was retired": (
        ("delete from gapless.lease where {group} and partition_id >= 2;"
        "update gapless.topic set partitions = 2 where topic_id = {orders}"),
        [],
    ),
    "planned for a stranger": (
        LEASE.format(f"target = '{GONE}'"),
        [("P1", PLACE, "planned for a member that the plan does not know")],
    ),
    "planned for nobody": (LEASE.format("target = null"), []),
    "planned for others than there are": (
        LEASE.format(f"target = '{GONE}'")
        + f"update gapless.consumer_group set planned_for = array['{ME}']::uuid[] where {{group}}",
        [],
    ),
    "no plan yet": (
        LEASE.format(f"target = '{GONE}'")
        + "update gapless.consumer_group set planned_for = '{{}}' where {group}",
        [],
    ),
    "nearly balanced": (
        LEASE.format(f"target = '{YOU}'") + "delete from gapless.lease where {group} and partition_id = 1;"
        "delete from gapless.consumer_offsets where {group} and partition_id = 1",
        [],
    ),
    "not balanced": (
        LEASE.format(f"target = '{YOU}'"), [("P1", "billing/orders", "you has 3, me has 1")],
    ),
    "one who is full": (
        LEASE.format(f"target = '{YOU}'")
        + f"update gapless.member set capacity = 7 where member_id = '{ME}'",
        [],
    ),
    "one who has room": (
        LEASE.format(f"target = '{YOU}'")
        + f"update gapless.member set capacity = 8 where member_id = '{ME}'",
        [("P1", "billing/orders", "you has 3, me has 1")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKS)
def test_what_is_said_of_leases(world: Leases, name: str) -> None:
    statements, problems = CHECKS[name]
    world.run(statements)
    assert world.all("select * from gapless.check_leases()") == problems


# What is so, what sync() says, how many targets are null afterwards, and how much newer the plan is.
QUEUE = "update gapless.consumer_group set mode = 'queue', block = 10 where {group};"
NO_MEMBERS = "delete from gapless.member_group where {group};"
SYNCS: dict[str, tuple[str, bool, int, int]] = {
    "it is as planned": ("", False, 0, 0),
    "elsewhere it is not": (
        ("update gapless.lease set target = null where not ({group});"
        "update gapless.consumer_group set planned_for = '{{}}' where not ({group})"),
        False, 0, 0,
    ),
    "one is planned for nobody": (LEASE.format("target = null"), True, 0, 1),
    "others were there": (
        f"update gapless.consumer_group set planned_for = array['{ME}']::uuid[] where {{group}}", False, 0, 1,
    ),
    "one left": (f"delete from gapless.member_group where {{group}} and member_id = '{YOU}'", True, 0, 1),
    "all left": (NO_MEMBERS, True, 4, 1),
    "nobody was there, and is": (
        NO_MEMBERS + "update gapless.consumer_group set planned_for = '{{}}' where {group};"
        "update gapless.lease set target = null where {group}",
        False, 4, 0,
    ),
    "a queue": (QUEUE + LEASE.format("target = null"), False, 1, 0),
    "a queue that others serve now": (
        QUEUE + LEASE.format("target = null") + NO_MEMBERS, False, 1, 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SYNCS)
def test_when_a_plan_is_made(world: Leases, name: str) -> None:
    statements, changes, unserved, newer = SYNCS[name]
    world.run(statements)
    others = f"select to_jsonb(t)::text from gapless.{{}} t where not (group_id = 'billing' and topic_id = {world.topic_id})"
    beside = [world.all(others.format(table)) for table in ("lease", "consumer_group")]
    here = f"from gapless.{{}} where group_id = 'billing' and topic_id = {world.topic_id}"
    before = world.value("select generation " + here.format("consumer_group"))
    assert world.value(f"select gapless.sync('billing', {world.topic_id})") is changes
    locked = world.value(
        "select exists (select from pg_locks where relation = 'gapless.guard_planning'::regclass"
        " and pid = pg_backend_pid())"
    )
    assert locked == (newer > 0), "where there is nothing to plan nobody is held up"
    assert world.value("select count(*) - count(target) " + here.format("lease")) == unserved
    assert world.value("select generation " + here.format("consumer_group")) == before + newer
    assert [world.all(others.format(table)) for table in ("lease", "consumer_group")] == beside
    live = world.value(f"select gapless.live_members('billing', {world.topic_id})")
    assert world.value("select planned_for " + here.format("consumer_group")) == live
