"""Plans: who gets which partitions, and that nothing is written of others'.

Members and who has a partition are letters; a dot is nobody. x is a member that does not live.
"""

from dataclasses import dataclass, field
from uuid import UUID

import pytest

from support.twins import Twins

MEMBERS = {name: UUID(int=n) for n, name in enumerate("abcx", 1)}
MEMBER = (
    "insert into gapless.member (member_id, name, ttl, expires_at, backend_pid, capacity)"
    " values (%s, %s, '1 hour', 'infinity', 0, %s)"
)
LEASE = (
    "insert into gapless.lease (group_id, topic_id, partition_id, target, owner, generation)"
    " values ('billing', %s, %s, %s, %s, 5)"
)
BUSY = (  # half of it is another group's, half another topic's
    "insert into gapless.lease (group_id, topic_id, partition_id, target)"
    " select case n % 2 when 0 then 'mail' else 'billing' end, case n % 2 when 0 then {orders} else {other} end,"
    " 1000 * {no} + n, '{member}' from generate_series(1, {count}) n"
)


@dataclass(frozen=True)
class Plan:
    """Whom partitions are meant for before and afterwards, and who has them (the same, if nothing is said).

    live: names of members, each with its capacity, if it has one; elsewhere: what they have of other groups.
    """

    live: dict[str, int | None]
    before: str
    after: str
    owners: str = ""
    elsewhere: dict[str, int] = field(default_factory=dict)


AB: dict[str, int | None] = {"a": None, "b": None}
ABC: dict[str, int | None] = {**AB, "c": None}
PLANS = {
    "one takes all": Plan({"a": None}, "....", "aaaa"),
    "nobody": Plan({}, "ax.", "..."),
    "by turns": Plan(AB, "......", "ababab"),
    "one more for the first": Plan(AB, ".....", "ababa"),
    "one more for who has most": Plan(AB, "bbb..", "bbbaa"),
    "one more for who has less elsewhere": Plan(AB, ".....", "babab", elsewhere={"a": 1}),
    "what is level stays": Plan(AB, "bbaa", "bbaa"),
    "what is level to within one stays": Plan(AB, "bbaab", "bbaab"),
    "a third comes": Plan(ABC, "aaabbb", "aacbbc"),
    "one is gone": Plan(AB, "axbxaxb", "aabbaab"),
    "an end to what one can": Plan({"a": 1, "b": None}, ".....", "abbbb"),
    "two ends": Plan({"a": 1, "b": 2, "c": None}, ".........", "abcbccccc"),
    "two ends, the other way round": Plan({"a": None, "b": 2, "c": 1}, ".........", "abcabaaaa"),
    "an end that is the share": Plan({"a": 2, "b": None}, ".....", "ababb"),
    "an end that is more than the share": Plan({"a": 3, "b": None}, ".....", "ababa"),
    "who is full has no part in what is left": Plan({"a": 1, "b": None, "c": None}, "a.....", "abcbcb"),
    "who has too much, beside one who is full": Plan({"a": 1, "b": None, "c": None}, "bbbbb.", "bbbacc"),
    "no room": Plan({"a": 1, "b": 1}, "aabb", "a.b."),
    "no room at all": Plan({"a": 0}, "aa", ".."),
    "an end that is reached": Plan({"a": 3}, "aaa", "aaa"),
    "an end that is passed elsewhere": Plan({"a": 2, "b": None}, "aaa", "bbb", elsewhere={"a": 3}),
    "room that is left by others": Plan({"a": 5, "b": None}, "......", "babbbb", elsewhere={"a": 4}),
    "what others have is not one's own": Plan({"a": 2, "b": 9}, "....", "abab", elsewhere={"b": 4}),
    "it was promised": Plan(AB, "ab", "ab", "ba"),
    "who was to have it is gone": Plan(AB, "xx", "ba", "ba"),
    "both are gone": Plan(AB, "xx", "ab", "xx"),
    "what is in hand stays": Plan(AB, "aaaa", "baba", "xaxa"),
}  # fmt: skip


def arrange(twins: Twins, plan: Plan) -> None:
    """Make the members, and the leases of billing."""
    conn, ids = twins.conn, twins.topic_ids
    for no, (name, member_id) in enumerate(MEMBERS.items(), 1):
        conn.execute(MEMBER, [member_id, name, plan.live.get(name)])
        if count := plan.elsewhere.get(name):
            conn.execute(BUSY.format(no=no, member=member_id, count=count, **ids).encode())
    conn.execute(
        "delete from gapless.lease where group_id = 'billing' and topic_id = %s", [ids["orders"]]
    )
    for partition, pair in enumerate(zip(plan.before, plan.owners or plan.before, strict=True)):
        conn.execute(LEASE, [ids["orders"], partition, *map(MEMBERS.get, pair)])


@pytest.mark.few(len(PLANS))
@pytest.mark.parametrize("name", PLANS)
def test_who_gets_what(twins: Twins, name: str) -> None:
    """What changes has the plan's number; there is no more to do afterwards."""
    plan = PLANS[name]
    arrange(twins, plan)
    live = [MEMBERS[each] for each in plan.live]
    call = "create temp table n on commit drop as select gapless.plan('billing', %s, %s::uuid[], 7) as n"
    changed = twins.changes(call, [twins.topic_ids["orders"], live])
    assert changed == {
        f"lease billing orders {n}": {"generation": (5, 7), "target": (_id(was), _id(now))}
        for n, (was, now) in enumerate(zip(plan.before, plan.after, strict=True))
        if was != now
    }
    assert twins.value("select n from n") == len(changed)
    again = "select gapless.plan('billing', %s, %s::uuid[], 8)"
    assert twins.value(again, twins.topic_ids["orders"], live) == 0


def _id(name: str) -> str | None:
    return str(MEMBERS[name]) if name in MEMBERS else None


STAGED = "create or replace function gapless.{} returns int language sql as 'select {}'"
RETIRE = "retire(_group_id text, _topic_id int)"
PLANNED = "plan(_group_id text, _topic_id int, _live uuid[], _generation bigint)"
GENERATION = (
    "select generation from gapless.consumer_group where group_id = 'billing' and topic_id = %s"
)
JOIN = "insert into gapless.member_group (member_id, group_id, topic_id) values (%s, 'billing', %s)"


@pytest.mark.parametrize(
    ("retired", "moved", "comes", "changes", "newer"),
    [
        (0, 0, True, False, True), (0, 0, False, False, False), (1, 0, False, True, False),
        (0, 1, True, True, True), (2, 1, True, True, True), (1, 2, True, True, True),
        (1, 1, True, True, True),
    ],
)  # fmt: skip
def test_leases_change_by_a_plan_or_by_what_is_retired(
    twins: Twins, retired: int, moved: int, *, comes: bool, changes: bool, newer: bool
) -> None:
    """comes: somebody joined since the last plan."""
    here = twins.topic_ids["orders"]
    twins.conn.execute(STAGED.format(RETIRE, retired).encode())
    twins.conn.execute(STAGED.format(PLANNED, moved).encode())
    if comes:
        twins.conn.execute(MEMBER, [MEMBERS["a"], "a", None])
        twins.conn.execute(JOIN, [MEMBERS["a"], here])
    before = twins.value(GENERATION, here)
    assert twins.value("select gapless.sync('billing', %s)", here) is changes
    assert twins.value(GENERATION, here) - before == newer
