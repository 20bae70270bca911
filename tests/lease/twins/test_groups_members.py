"""Members: who is gone and who is only suspected, and what a look says."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from gapless.db.connect import connect
from lease.twins.members import ME, NOW, OVER, SUSPECT, THIRD, TTL, UP, YOU, row
from support.twins import Twins

HELD = (9001, 9003, 9005)  # presence locks that a session has: the even ones are free


@dataclass
class Worker:
    """A session that is present as some members, and has the partition billing/other/2 in hand."""

    conn: Connection[Any]
    pid: int


@pytest.fixture(scope="module")
def worker(module_dsn: str, shared: Twins) -> Iterator[Worker]:
    """Beside it members that are there for the whole file, fresh: one of each kind."""
    for no, kind in ((9005, "supervisor"), (9105, "client")):
        shared.conn.execute(
            row(
                f"00000000-0000-0000-0000-00000000{no}",
                no,
                kind=kind,
                ttl=LONG,
                expires=f"{NOW} + {LONG}",
            )
        )
    with connect(module_dsn, role="test") as conn:
        for number in HELD:
            conn.execute("select pg_advisory_lock(7427002, %s)", [number])
        conn.execute("select pg_advisory_lock(7427003, %s)", [shared.leases["billing", "other", 2]])
        yield Worker(conn, conn.info.backend_pid)


def own(twins: Twins, member: str, pid: int) -> None:
    twins.conn.execute(
        f"update gapless.lease set owner = '{member}', worker_pid = {pid}"
        " where group_id = 'billing' and topic_id = %s and partition_id = 2",
        [twins.topic_ids["other"]],
    )


GONE, SUSPECTED, LEFT = "gone", "suspected", "left"
ENDED = "its session ended"
SHORT = f"{NOW} - {UP} - interval '1 ms'"  # a grace that is just over for who was suspected when the server began
LONG = "interval '100 years'"
BEFORE_UP = f"pg_postmaster_start_time() + {TTL}"
LATE: dict[str, object] = {
    "kind": "client",
    "expires": f"{NOW} - interval '1 s'",
    "ttl": "interval '1 s'",
}
DEADLINE = r"its deadline passed: silent for [2-9]\.\d s"
# number (odd: present), columns, whether a worker of it holds a partition, both graces; what becomes of it
EVICTIONS: dict[str, tuple[int, dict[str, object], bool, str, str, str, str | None]] = {
    "absent": (9002, {}, False, LONG, LONG, GONE, ENDED),
    "absent, and a worker is left": (9002, {}, True, LONG, LONG, SUSPECTED, None),
    "so, and suspected": (9002, SUSPECT, True, LONG, LONG, LEFT, None),
    "so, for long": (9002, SUSPECT, True, LONG, SHORT, GONE, ENDED),
    "so, before the server began": (
        9002, {**SUSPECT, "suspect": f"{UP} - interval '1 us'"}, True, LONG, SHORT, SUSPECTED, None,
    ),
    "absent, overdue and suspected": (9002, {**SUSPECT, "expires": OVER, "ttl": "interval '1 s'"}, True, SHORT, LONG, GONE, ENDED),
    "absent since the server began": (9002, {"expires": BEFORE_UP.replace(TTL, LONG), "ttl": LONG}, False, LONG, LONG, LEFT, None),
    "absent, it has beaten since": (9002, {"expires": f"{UP} + {LONG}", "ttl": LONG}, False, LONG, LONG, GONE, ENDED),
    "present": (9001, {}, False, LONG, LONG, LEFT, None),
    "present, more than half": (9001, {"expires": f"{NOW} + interval '60 s'"}, False, LONG, LONG, LEFT, None),
    "silent": (9001, {"expires": f"{NOW} + interval '40 s'"}, False, LONG, LONG, SUSPECTED, None),
    "silent, and suspected for long": (9001, {**SUSPECT, "expires": f"{NOW} + interval '40 s'"}, False, SHORT, SHORT, LEFT, None),
    "overdue": (9001, {"expires": OVER}, False, SHORT, SHORT, SUSPECTED, None),
    "overdue, and suspected": (9001, {**SUSPECT, "expires": OVER}, False, LONG, SHORT, LEFT, None),
    "so for long": (9001, {**SUSPECT, "expires": OVER}, False, SHORT, LONG, GONE, r"silent for 10\d\.\d s"),
    "a client": (9002, {"kind": "client", "expires": f"{NOW} + interval '40 s'"}, False, LONG, LONG, LEFT, None),
    "a client that is late": (9002, LATE, False, LONG, LONG, GONE, DEADLINE),
    "a client since the server began": (9002, {"kind": "client", "expires": OVER, "ttl": LONG}, False, LONG, LONG, LEFT, None),
}  # fmt: skip


@pytest.mark.parametrize("name", EVICTIONS)
def test_who_is_gone(twins: Twins, worker: Worker, name: str) -> None:
    """Another one is there that is fine, and I am silent myself: it is nobody's business to judge oneself."""
    number, columns, works, suspect_grace, reconnect_grace, outcome, reason = EVICTIONS[name]
    twins.conn.execute(row(ME, 9004, expires=OVER, **SUSPECT))
    twins.conn.execute(row(THIRD, 9003))
    twins.conn.execute(row(YOU, number, **columns))
    own(twins, YOU if works else ME, worker.pid)
    twins.conn.execute(
        "insert into gapless.eviction (member_id, name, reason, evicted_ts)"
        " select gen_random_uuid(), n, n, now() - n::interval from unnest('{23 h,25 h}'::text[]) n"
    )
    call = f"gapless.evict('{ME}', {suspect_grace}, {reconnect_grace})"
    changed = twins.changes(f"create temp table n on commit drop as select {call} as n")
    assert twins.value("select n from n") == (outcome == GONE)
    member = changed.pop(f"member {YOU}", None)
    if outcome == LEFT:
        assert (member, changed) == (None, {})
        return
    assert member is not None
    if outcome == SUSPECTED:
        assert changed == {}
        assert set(member) <= {"suspect_at"}
        query = f"select {NOW} - suspect_at < interval '5 s' from gapless.member where name = 'm{number}'"
        assert twins.conn.execute(query).fetchall() == [(True,)]
        return
    assert member["member_no"] == (number, None)
    eviction = changed.pop(f"eviction {YOU}")
    assert re.fullmatch(reason or "", str(eviction.pop("reason")[1]))
    assert eviction == {"member_id": (None, YOU), "name": (None, f"m{number}")}
    assert [each["name"] for each in changed.values()] == [("25 h", None)], (
        "what is older than a day"
    )


def test_who_is_fine_is_not_kept_waiting(twins: Twins, worker: Worker) -> None:
    """Their next heartbeat would wait for this transaction."""
    assert twins.value(f"select gapless.evict('{ME}')") == 0
    query = "select member_no from gapless.member order by 1 for update skip locked"
    with worker.conn.transaction(force_rollback=True):
        assert worker.conn.execute(query).fetchall() == [(9005,), (9105,)]


def test_whose_worker_it_is(twins: Twins, worker: Worker, module_dsn: str) -> None:
    """The lock of its own partition, of its own worker, in this database."""
    works = f"select gapless.works('{YOU}')"
    own(twins, YOU, worker.pid)
    assert twins.value(works) is True
    assert twins.value(f"select gapless.works('{ME}')") is False
    own(twins, YOU, worker.pid + 1)
    assert twins.value(works) is False
    own(twins, ME, worker.pid)
    twins.conn.execute(
        f"update gapless.lease set owner = '{YOU}', worker_pid = {worker.pid} where {twins.here()}"
    )
    assert twins.value(works) is False, "the lock of another partition"
    lease = twins.leases["billing", "orders", 1]
    locks = {
        "another kind": (module_dsn, f"pg_advisory_lock(7427002, {lease})"),
        "one number": (module_dsn, f"pg_advisory_lock((7427003::bigint << 32) | {lease})"),
        "another database": (make_conninfo(module_dsn, dbname="postgres"), f"pg_advisory_lock(7427003, {lease})"),
        "this": (module_dsn, f"pg_advisory_lock(7427003, {lease})"),
    }  # fmt: skip
    for name, (dsn, lock) in locks.items():
        with connect(dsn, role="test") as conn:
            conn.execute(f"select {lock}")
            own_it = f"update gapless.lease set worker_pid = {conn.info.backend_pid} where {twins.here()}"
            twins.conn.execute(own_it)
            assert twins.value(works) is (name == "this"), name


# What is so, beside me, 9003 in billing of orders, and a member that follows and is there; whether that is a reason.
WATCHES: dict[str, tuple[list[str], bool]] = {
    "nothing": ([], False),
    "a member before is absent": ([row(THIRD, 9002)], False),
    "the next one is": ([row(THIRD, 9004)], True),
    "the next one is a client": ([row(THIRD, 9004, kind="client")], False),
    "another one is silent": ([row(THIRD, 9001, expires=f"{NOW} + interval '40 s'")], True),
    "another one was not long ago": ([row(THIRD, 9001, expires=f"{NOW} + interval '60 s'")], False),
    "a client is not": ([row(THIRD, 9002, kind="client", expires=f"{NOW} + interval '30 s'")], False),
    "a client is late": ([row(THIRD, 9002, kind="client", expires=OVER)], True),
    "I am": ([f"update gapless.member set expires_at = {OVER} where member_id = '{ME}'"], False),
    "the plan is of others": (["update gapless.consumer_group set planned_for = array[]::uuid[] where {group}"], True),
    "so it is elsewhere": (["update gapless.consumer_group set planned_for = array[]::uuid[] where not ({group})"], False),
    "a partition is unserved": (["update gapless.lease set target = null where {here}"], True),
    "so it is elsewhere, too": (["update gapless.lease set target = null where not ({group})"], False),
    "I have no room": (["update gapless.lease set target = null where {here}", "{full}"], False),
    "I have room for one": (["update gapless.lease set target = null where {here}", "{nearly}"], True),
    "I leave": (["update gapless.lease set target = null where {here}", "{leave}", "{planned}"], False),
    "a queue has no targets": (
        ["update gapless.lease set target = null where group_id = 'sender'", "{queue}", "{planned}"], False,
    ),
    "a partition is to go": (["{shrunk} where name = 'orders'"], True),
    "one elsewhere is": (["{shrunk} where name = 'other'"], False),
}  # fmt: skip
JOINED = (
    "insert into gapless.member_group select member_id, group_id, topic_id"
    " from gapless.member, gapless.consumer_group where member_no = 9005"
)
WORDS = {
    "full": f"update gapless.member set capacity = 2 where member_id = '{ME}'",
    "nearly": f"update gapless.member set capacity = 3 where member_id = '{ME}'",
    "leave": f"update gapless.member set state = 'draining' where member_id = '{ME}'",
    "queue": f"insert into gapless.member_group select '{ME}', group_id, topic_id from gapless.consumer_group"
    " where group_id = 'sender'",
    "planned": "update gapless.consumer_group g set planned_for = gapless.live_members(g.group_id, g.topic_id)",
    "shrunk": "update gapless.topic set partitions = 1, partitions_ever = 3",
}  # fmt: skip


@pytest.mark.parametrize("name", WATCHES)
def test_what_is_a_reason_to_look_again(twins: Twins, worker: Worker, name: str) -> None:
    """All partitions are served, two of orders by me, and all plans are of those who are there."""
    assert worker.pid
    statements, is_reason = WATCHES[name]
    group = twins.here().split(" and partition")[0]
    twins.seek(10)
    for statement in (
        row(ME, 9003),
        "insert into gapless.member_group select '{me}', group_id, topic_id from gapless.consumer_group where {group}",
        JOINED,
        "{planned}",
        "update gapless.lease set target = case when {group} and partition_id <> 1 then '{me}' else '{you}' end::uuid",
        *statements,
    ):
        words = {"group": group, "here": twins.here(), "me": ME, "you": YOU}
        twins.conn.execute(statement.format(**WORDS, **words))
    assert twins.value(f"select gapless.watch('{ME}')") is is_reason


@pytest.mark.parametrize(("absent", "is_reason"), [(9000, True), (9006, False)])
def test_the_last_looks_after_the_first(
    twins: Twins, worker: Worker, absent: int, is_reason: bool
) -> None:
    """The members are a ring; of who is no member nobody is next."""
    twins.conn.execute(row(ME, 9007 if is_reason else 9005 - 1))
    twins.conn.execute(row(YOU, absent))
    assert worker.pid
    assert twins.value(f"select gapless.watch('{ME}')") is is_reason
    assert twins.value(f"select gapless.watch('{THIRD}')") is False
