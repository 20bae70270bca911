"""Who is parked behind whom, and who follows: keys of units that were set aside, among twins."""

from typing import Any

import pytest

from support.letters import HERE, Letters, digest, of

FOLLOWS = {"state": ("parked", "waiting"), "next_attempt_ts": (None, "0 s")}
NOT_HERE = "not ({here})"
LAYOUT = "update gapless.topic set layout = 1 where name = 'orders';"
# Which layout placed what of orders; that of other is the other way round.
LAYOUTS = (
    "update gapless.log_segment set layout = case when topic_id = {{orders}} then {} else 3 - {} end"
    " where partition_id = {}{};"
)


@pytest.fixture(scope="module", autouse=True)
def known_keys(set_aside: Letters) -> None:
    set_aside.run("insert into gapless.guard_keys select group_no from gapless.consumer_group")


def laid_out(partition: int, layout: int, more: str = "") -> str:
    return LAYOUTS.format(layout, layout, partition, more)


def guarded(letters: Letters) -> list[Any]:
    """Whose keys this transaction has locked."""
    return letters.rows(
        "select g.group_id, g.topic_id from gapless.guard_keys k"
        " join gapless.consumer_group g using (group_no)"
        " where k.xmax::text = pg_current_xact_id()::text"
    )


def its(letters: Letters) -> list[Any]:
    return [("billing", letters.words["orders"])]


def test_the_keys_of_a_group_have_one_lock(letters: Letters) -> None:
    assert guarded(letters) == []
    assert letters.changes("select gapless.lock_keys('billing', {orders}, 1)") == (None, {})
    assert guarded(letters) == its(letters)
    letters.run("delete from gapless.guard_keys")
    _, changed = letters.changes("select gapless.lock_keys('mail', {other}, 7)")
    assert changed == {"guard_keys mail other": {"is": (None, "there")}}


# Keys everywhere, statements; the heads of key a, seen from partition 1 of orders.
HEADS: dict[str, tuple[dict[int, str], str, list[tuple[int, int]]]] = {
    "nobody": ({1: "b"}, "", []),
    "the first": ({4: "a", 3: "ba", 7: "a"}, "", [(1, 3)]),
    "nobody here": ({4: "a"}, "delete from gapless.dead_letter_key where {here}", []),
    "nobody else": ({4: "a"}, f"delete from gapless.dead_letter_key where {NOT_HERE}", [(1, 4)]),
    "another one here": (
        {3: "a", 4: "a"}, "delete from gapless.dead_letter_key where {here} and first_offset = 3", [(1, 4)]
    ),
    "everywhere, when there were other partitions": ({4: "a", 7: "a"}, LAYOUT, [(0, 4), (1, 4), (2, 4)]),
    "elsewhere": (
        {4: "a"}, f"{LAYOUT} delete from gapless.dead_letter_key where {{here}}", [(0, 4), (2, 4)]
    ),
    "of no other group": (
        {4: "a"},
        (f"{LAYOUT} delete from gapless.dead_letter_key"
        " where group_id = 'billing' and topic_id = {orders} and partition_id < 2"),
        [(2, 4)],
    ),
    "of no other topic": (
        {4: "a"}, f"{LAYOUT} delete from gapless.dead_letter_key where group_id = 'billing' and topic_id = {{orders}}", []
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADS)
def test_the_first_that_holds_a_key(letters: Letters, name: str) -> None:
    held, statements, heads = HEADS[name]
    letters.keys(held)
    letters.run(statements)
    found = letters.rows("select * from gapless.key_heads('billing', {orders}, 1, 'a') order by 1")
    assert found == heads
    if name != "nobody":
        assert letters.value("select gapless.holds_keys('billing', {orders}, 1)") is bool(heads)
    for offset in (3, 4, 5, 8):
        behind = letters.value(
            f"select gapless.is_behind('billing', {{orders}}, 1, {offset}, 'a'::bytea)"
        )
        assert behind is any(p == 1 and at < offset for p, at in heads)


# Partition and offset of one and of another one: which comes first.
AHEAD = [
    (1, 3, 1, 4, True), (1, 4, 1, 4, False), (1, 5, 1, 4, False), (1, 8, 2, 1, True), (2, 1, 1, 8, False),
    (1, 1, 0, 1, False), (0, 1, 1, 1, True), (0, 3, 1, 1, True), (0, 4, 1, 3, False), (0, 4, 2, 1, True),
    (2, 4, 0, 8, False), (0, 1, 0, 2, True), (2, 5, 2, 4, False),
]  # fmt: skip


@pytest.mark.parametrize(("partition", "offset", "other", "at", "is_ahead"), AHEAD)
def test_which_comes_first_of_two(
    letters: Letters, partition: int, offset: int, other: int, at: int, is_ahead: bool
) -> None:
    """Partition 0 is of layout 0, from offset 4 on of 1, as all of 1; 2 of 2."""
    letters.run(
        laid_out(0, 0) + laid_out(0, 1, " and base_offset >= 4") + laid_out(1, 1) + laid_out(2, 2)
    )
    where = f"{{orders}}, {partition}, {offset}, {other}, {at}"
    assert letters.value(f"select gapless.is_ahead({where})") is is_ahead


# Keys everywhere, statements; which units follow of 3, 4, 7 and 8.
FOLLOWING: dict[str, tuple[dict[int, str], str, list[int]]] = {
    "nobody in front": ({4: "ab", 7: "a"}, "", [4]),
    "one in front": ({1: "b", 4: "ab"}, "", []),
    "of another one a key is held": ({3: "b", 4: "c", 7: "b"}, "", [4]),
    "keys are gone": ({}, "", [4]),
    "elsewhere it has another key": (
        {3: "b", 4: "c"},
        f"update gapless.dead_letter_key set key_digest = 'b' where first_offset = 4 and {NOT_HERE}",
        [4],
    ),
    "elsewhere somebody is in front": (
        {1: "a", 4: "a"}, "delete from gapless.dead_letter_key where {here} and first_offset = 1", [4]
    ),
    "somebody is in front here": (
        {1: "a", 4: "a"}, f"delete from gapless.dead_letter_key where {NOT_HERE} and first_offset = 1", []
    ),
    "both": ({4: "a", 7: "b"}, "", [4, 7]),
    "one after the other": ({4: "a", 7: "a"}, "", [4]),
    "not parked": ({4: "a"}, "waiting", []),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLLOWING)
@pytest.mark.parametrize("how", ["unpark", "settle_parked"])
def test_who_follows(letters: Letters, name: str, how: str) -> None:
    held, statements, following = FOLLOWING[name]
    letters.keys(held)
    if statements == "waiting":
        letters.put("waiting", 4)
    else:
        letters.run(statements)
    if 7 in held:
        letters.put("parked", 7, "true")
    call = f"select gapless.{how}('billing', {{orders}}, 1, array[3, 4, 7, 8])"
    answer, changed = letters.changes(call)
    assert answer == len(following)
    assert changed == {f"dead_letter {HERE} {offset}": FOLLOWS for offset in following}
    assert guarded(letters) == (its(letters) if how == "settle_parked" else [])


def test_only_those_follow_that_are_named(letters: Letters) -> None:
    letters.put("parked", 7, "true")
    call = "select gapless.unpark('billing', {orders}, 1, array[1, 3, 5, 7])"
    assert letters.changes(call) == (1, {f"dead_letter {HERE} 7": FOLLOWS})


# Keys everywhere, statements, how many follow, who does, of which partition and offset; 7 is parked everywhere.
RELEASED: dict[str, tuple[dict[int, str], str, list[tuple[int, int]]]] = {
    "one": ({1: "a", 4: "a"}, "", [(1, 4)]),
    "one after the other": ({1: "ab", 4: "a", 7: "ab"}, "", [(1, 4)]),
    "one for each key": ({1: "ab", 4: "a", 7: "b"}, "", [(1, 4), (1, 7)]),
    "one by two keys": ({1: "ab", 4: "ab"}, "", [(1, 4)]),
    "still behind another one": ({1: "a", 3: "b", 4: "ab"}, "", []),
    "nobody behind it": ({1: "a", 4: "b"}, "", []),
    "in another partition": (
        {1: "a", 4: "a"},
        (LAYOUT + laid_out(2, 1) + "delete from gapless.dead_letter_key where group_id = 'billing'"
        " and topic_id = {orders} and (partition_id = 0 or partition_id = 2 and first_offset = 1"
        " or partition_id = 1 and first_offset = 4)"),
        [(2, 4)],
    ),
    "in the older of two others": (
        {1: "a", 4: "a"},
        (LAYOUT + laid_out(0, 2) + laid_out(2, 1) + "delete from gapless.dead_letter_key where group_id = 'billing'"
        " and topic_id = {orders} and (partition_id <> 1 and first_offset = 1"
        " or partition_id = 1 and first_offset = 4)"),
        [(2, 4)],
    ),
    "in two others": (
        {1: "ab", 4: "a", 7: "b"},
        (LAYOUT + laid_out(0, 1) + laid_out(2, 1) + "delete from gapless.dead_letter_key where group_id = 'billing'"
        " and topic_id = {orders} and (partition_id <> 1 and first_offset = 1 or partition_id = 0 and first_offset = 4"
        " or partition_id = 2 and first_offset = 7 or partition_id = 1 and first_offset > 1)"),
        [(0, 7), (2, 4)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RELEASED)
def test_who_follows_when_keys_are_free(letters: Letters, name: str) -> None:
    held, statements, following = RELEASED[name]
    letters.keys(held)
    letters.run(statements)
    letters.put("parked", 7, "true")
    answer, changed = letters.changes("select gapless.release_keys('billing', {orders}, 1, 1)")
    assert answer == len(following)
    keys = {f"{HERE} {key} 1" for key in held[1]}
    assert of(changed, "dead_letter_key").keys() == keys
    assert of(changed, "dead_letter") == {
        f"billing orders {partition} {offset}": FOLLOWS for partition, offset in following
    }
    assert len(changed) == len(keys) + len(following)
    assert guarded(letters) == its(letters)


@pytest.mark.parametrize("where", ["{here} and first_offset = 1", "{here}"])
def test_one_without_keys_releases_nobody_and_locks_nothing(letters: Letters, where: str) -> None:
    letters.keys({1: "a", 4: "a"})
    letters.run(f"delete from gapless.dead_letter_key where {where}")
    call = "select gapless.release_keys('billing', {orders}, 1, 1)"
    assert letters.changes(call) == (0, {})
    assert guarded(letters) == []


AFTER = "select * from gapless.parked_after('billing', {{orders}}, 1, {})"
# First offset: who is behind it here, and where else once partitions were changed.
PARKED: dict[int, tuple[list[Any], list[Any]]] = {
    1: ([(4, 3), (7, 1)], [(2, 4, 3), (2, 7, 1)]),
    3: ([], [(2, 7, 1)]),
    4: ([(7, 1)], [(2, 4, 3), (2, 7, 1)]),
    7: ([], [(2, 4, 3), (2, 7, 1)]),
    8: ([], [(2, 7, 1)]),
}


@pytest.mark.parametrize("first_offset", PARKED)
def test_who_is_parked_behind_one(letters: Letters, first_offset: int) -> None:
    """Elsewhere 4 and 7 follow 3, too; here 8 alone does, which is not parked."""
    behind, elsewhere = PARKED[first_offset]
    letters.keys({1: "a", 3: "dz", 4: "ab", 7: "b", 8: "e"})
    letters.run(
        f"update gapless.dead_letter_key set key_digest = 'b' where key_digest = 'z' and {NOT_HERE};"
        "update gapless.dead_letter_key set key_digest = 'x'"
        " where key_digest = 'd' and partition_id <> 2 or key_digest = 'e' and {here};"
        "insert into gapless.dead_letter_key select group_id, topic_id, partition_id, 'x', 7"
        f" from gapless.consumer_offsets where {NOT_HERE}"
    )
    letters.put("parked", 7, "topic_id = {orders}")
    letters.put("dead", 4, "topic_id = {other}")
    letters.put("parked", 8, "topic_id = {other}")
    here = [(1, *unit) for unit in behind]
    assert letters.rows(AFTER.format(first_offset)) == here
    letters.run(LAYOUT + laid_out(2, 1))
    assert letters.rows(AFTER.format(first_offset)) == here + elsewhere


UNIT_KEYS = "select * from gapless.unit_keys('billing', {orders}, 1, %s::bigint[], %s::bigint[]) order by 1, 2"
PUBLISH = "insert into gapless.outbox_message_t (topic_id, key, payload) values ({}, %s, '1') returning id"
LATEST = (
    "insert into gapless.latest (topic_id, key_digest, partition_id, c_offset, timeline, id, xid, payload, created_ts)"
    " values ({}, %s, 1, %s, 1, %s, '1', '1', now())"
)


@pytest.fixture
def ids(letters: Letters) -> list[int]:
    """Events of keys a, a, b, c; then one that only latest has, of key d."""
    orders = letters.words["orders"]
    publish = PUBLISH.format(orders)
    made = [row[0] for key in "aabc" for row in letters.conn.execute(publish, [key])]
    latest = LATEST.format(orders)
    letters.conn.execute(latest, [digest("d"), 1, 999_999])
    letters.conn.execute(latest, [digest("no"), 2, made[0]])
    return [*made, 999_999]


def test_the_keys_of_units_and_which_are_held(letters: Letters, ids: list[int]) -> None:
    letters.conn.execute(
        "insert into gapless.dead_letter_key select group_id, topic_id, partition_id, d, 3"
        " from gapless.consumer_offsets, unnest(%s::bytea[]) d",
        [[digest("a"), digest("d")]],
    )
    params = [[*ids, 888], [3, 4, 4, 2, 5, 9]]
    a, b, c, d = (digest(key) for key in "abcd")
    held = [(2, c, False), (3, a, False), *sorted([(4, a, True), (4, b, False)]), (5, d, True)]
    assert letters.rows(UNIT_KEYS, params) == held
    letters.run("delete from gapless.dead_letter_key where {here}")
    assert letters.rows(UNIT_KEYS, params) == [(unit, key, False) for unit, key, _ in held]


def test_one_row_for_each_key_of_a_unit(letters: Letters, ids: list[int]) -> None:
    rows = letters.rows(UNIT_KEYS, [ids[:3], [3, 3, 3]])
    assert rows == sorted([(3, digest("a"), False), (3, digest("b"), False)])
