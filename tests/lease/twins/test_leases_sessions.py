"""How many sessions members take that are present, and one more that is about to join."""

from dataclasses import dataclass

import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from gapless.db.connect import connect
from support.twins import Twins

PRESENCE = 7427002
MEMBER = (
    "insert into gapless.member (member_id, member_no, name, ttl, expires_at, backend_pid, capacity,"
    " partitions_per_worker, sessions) overriding system value"
    " values (gen_random_uuid(), %s, 'm', '1 hour', 'infinity', 0, %s, %s, %s) returning member_id"
)
JOIN = (
    "insert into gapless.member_group (member_id, group_id, topic_id)"
    " select %s::uuid, p[1], gapless.topic_id(p[2])"
    " from (select string_to_array(x, '/') as p from unnest(%s::text[]) x) y"
)
NEEDED = (
    "select supervisors, partitions, workers, own"
    " from gapless.sessions_needed(%s, %s, %s::text[], %s::text[], 8, %s)"
)
Needed = tuple[int, int, int, int]


@dataclass(frozen=True)
class One:
    """One that is present, or will be."""

    groups: tuple[str, ...] = ("billing/orders",)
    capacity: int | None = None
    per_worker: int = 1
    sessions: int = 2


# Who is present, who is about to come; how many supervisors, partitions, workers, and sessions of supervisors.
FLEETS: dict[str, tuple[list[One], One, Needed]] = {
    "alone": ([], One(), (1, 3, 3, 2)),
    "for nothing": ([], One(()), (1, 0, 0, 2)),
    "two for a worker": ([], One(per_worker=2), (1, 3, 2, 2)),
    "with room for two": ([], One(capacity=2), (1, 2, 2, 2)),
    "for two groups": ([], One(("billing/orders", "mail/other")), (1, 6, 6, 2)),
    "a queue": ([], One(("auditor/orders",)), (1, 0, 0, 2)),
    "a queue elsewhere": ([], One(("auditor/new",)), (1, 8, 8, 2)),
    "a topic that is still to be made": ([], One(("billing/new",)), (1, 8, 8, 2)),
    "one of four": ([], One(("billing/new",), per_worker=3), (1, 8, 3, 2)),
    "two share": ([One(sessions=5)], One(), (2, 3, 3, 7)),
    "two share, of which one has large workers": ([One(per_worker=3)], One(), (2, 3, 3, 4)),
    "two with large workers": ([One(per_worker=3)], One(per_worker=3), (2, 3, 2, 4)),
    "two with little room": ([One(capacity=1)], One(capacity=1), (2, 2, 2, 4)),
    "two for different groups": ([One(("mail/orders",))], One(), (2, 6, 6, 4)),
    "two for different topics": ([One(("billing/other",), per_worker=3)], One(), (2, 6, 4, 4)),
    "one who serves a queue": ([One(("auditor/orders", "sender/other"))], One(), (2, 3, 3, 4)),
    "three": ([One(per_worker=2), One(("billing/orders", "mail/orders"))], One(), (3, 6, 6, 6)),
}


def present(twins: Twins, no: int, one: One) -> None:
    member = twins.value(MEMBER, no, one.capacity, one.per_worker, one.sessions)
    twins.conn.execute(JOIN, [member, list(one.groups)])


def needed(twins: Twins, one: One) -> Needed:
    pairs = [each.split("/") for each in one.groups]
    groups, topics = [group for group, _ in pairs], [topic for _, topic in pairs]
    params = [one.capacity, one.per_worker, groups, topics, one.sessions]
    ((supervisors, partitions, workers, own),) = twins.conn.execute(NEEDED, params).fetchall()
    return (supervisors, partitions, workers, own)


@pytest.mark.few(len(FLEETS))
@pytest.mark.parametrize("name", FLEETS)
def test_how_many_they_need(twins: Twins, other: Connection, name: str) -> None:
    fleet, one, expected = FLEETS[name]
    for no, each in enumerate(fleet, 9001):
        present(twins, no, each)
        other.execute("select pg_advisory_xact_lock(%s, %s)", [PRESENCE, no])
    assert needed(twins, one) == expected


def test_who_is_not_present_needs_none(twins: Twins, module_dsn: str) -> None:
    """Whatever else is locked by its number."""
    present(twins, 9001, One(("mail/orders",)))
    postgres = make_conninfo(module_dsn, dbname="postgres")
    for dsn, lock in (
        (module_dsn, "pg_advisory_lock(7427003, 9001)"),
        (module_dsn, "pg_advisory_lock(7427002, 9002)"),
        (module_dsn, "pg_advisory_lock(7427002::bigint << 32 | 9001)"),
        (postgres, "pg_advisory_lock(7427002, 9001)"),
    ):
        with connect(dsn, role="test") as session:
            session.execute(f"select {lock}".encode())
            assert needed(twins, One()) == (1, 3, 3, 2), lock
