"""A lease that is given back: of its place alone, by the owner alone, and its group is told."""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.twins import Twins

RELEASE = "select gapless.release(%s, %s, 1, %s::uuid)"
OURS, OTHER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
OWNER = "33333333-3333-4333-8333-333333333333"
LEASE, PLACE = "lease billing orders 1", "consumer_offsets billing orders 1"
FREED = {"owner": (OWNER, None), "token": (OURS, None), "worker_pid": (7, None)}
CLEAN = {"installed_offset": (2, None)}
LOOKS = 20  # so often a session asks for something, that what is told to it comes with the answer


@pytest.fixture
def owned(twins: Twins) -> Twins:
    """One member has everything, with one token and a fence everywhere."""
    twins.conn.execute(
        "update gapless.lease set owner = %s, token = %s, worker_pid = 7", [OWNER, OURS]
    )
    twins.conn.execute(
        "update gapless.consumer_offsets set token = %s, installed_offset = 2", [OURS]
    )
    return twins


@pytest.mark.parametrize(
    ("lease", "place", "given", "changed"),
    [
        (OURS, OURS, OURS, {LEASE: FREED, PLACE: CLEAN}),
        (OURS, OTHER, OURS, {LEASE: FREED}),
        (OTHER, OTHER, OURS, {}),
        (OTHER, OURS, OURS, {PLACE: CLEAN}),
        (None, OTHER, OURS, {}),
        (OURS, OURS, None, {}),
    ],
)
def test_a_lease_is_given_back_by_its_token(
    owned: Twins, lease: str | None, place: str, given: str | None, changed: dict[str, Any]
) -> None:
    """The fence is marked as left cleanly; the lease is nobody's, if it was the caller's."""
    for table, token in (("lease", lease), ("consumer_offsets", place)):
        owned.conn.execute(
            f"update gapless.{table} set token = %s where {owned.here()}".encode(), [token]
        )
    statement = f"create temp table answer on commit drop as {RELEASE} as said"
    params = ["billing", owned.topic_ids["orders"], given]
    assert owned.changes(statement, params) == changed
    assert owned.value("select said from answer") is (LEASE in changed)


@pytest.mark.parametrize("group", ["nobody", "billing"])
def test_where_there_is_no_lease_none_is_given_back(owned: Twins, group: str) -> None:
    topic_id = 0 if group == "billing" else owned.topic_ids["orders"]
    assert owned.changes(RELEASE, [group, topic_id, OURS]) == {}
    assert owned.value(RELEASE, group, topic_id, OURS) is False


@pytest.fixture
def crew(shared: Twins, module_dsn: str) -> Iterator[Connection[Any]]:
    """Two groups of both topics that go at the end, whose partitions all have an owner."""
    with connect(module_dsn, role="test") as conn:
        conn.execute(
            "select gapless.create_group(g, t) from unnest('{crew,crowd}'::text[]) g,"
            " unnest('{other,orders}'::text[]) t"
        )
        conn.execute("update gapless.lease set token = %s where group_id like 'cr%%'", [OURS])
        yield conn
        conn.execute("update gapless.lease set token = null where group_id like 'cr%'")
        conn.execute("select gapless.drop_group(g) from unnest('{crew,crowd}'::text[]) g")
        conn.execute("delete from gapless.audit where group_id like 'cr%'")  # rows of a second run


def test_its_group_is_told_of_a_lease_that_is_free(
    shared: Twins, crew: Connection[Any], module_dsn: str
) -> None:
    """Nobody else is, and nobody of one that is not."""
    numbers = {
        (group, topic_id): number
        for group, topic_id, number in crew.execute(
            "select group_id, topic_id, group_no from gapless.consumer_group"
        )
    }
    heard: list[tuple[str, str]] = []
    here = ("crew", shared.topic_ids["orders"])
    with connect(module_dsn, role="test") as ear:
        ear.add_notify_handler(lambda each: heard.append((each.channel, each.payload)))
        for number in set(numbers.values()):
            ear.execute(f"listen gapless_g_{number}".encode())
        for token, said in ((OTHER, False), (OURS, True), (OURS, False)):
            heard.clear()
            assert crew.execute(RELEASE, [*here, token]).fetchall() == [(said,)]
            for _ in range(LOOKS):
                ear.execute("select 1")
            assert heard == ([(f"gapless_g_{numbers[here]}", "free")] if said else [])
