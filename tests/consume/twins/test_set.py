"""create_group(), set_filter(), enter_layout(): what is written, of this place alone; what is refused."""

import pytest

from support.twins import Twins

GROUP = "select gapless.create_group(%s, 'orders', {})"
FILTER = "select gapless.set_filter('billing', 'orders', {})"
CREATED = {
    "start => 'earliest'": (1, "ordered", None, 3),
    "start => 'latest'": (9, "ordered", None, 3),
    "mode => 'queue'": (1, "queue", 100, 3),
    "'latest', 'queue', 7, 5": (9, "queue", 7, 5),
}
BAD_GROUPS = {
    (
        "new",
        "start => 'middle'",
    ): "a group starts at earliest, latest or latest-per-key, not at middle",
    (
        "new",
        "'latest-per-key', 'queue'",
    ): 'group "new" is a queue, and starts at earliest or latest: only',
    ("new", "'latest-per-key'"): 'topic "orders" is not compacted',
}
BAD_FILTERS = {
    "null": "a filter has event types or a condition: clear_filter() takes the filter away",
    "'{}'": "",
    "null, '$.'": "the condition of a filter is no jsonpath",
    "null, '$.n > $x'": "the condition of a filter has no value for $x",
}


@pytest.mark.parametrize("how", CREATED)
def test_a_new_group(twins: Twins, how: str) -> None:
    next_offset, mode, block, crashes = CREATED[how]
    changed = twins.changes(GROUP.format(how), ["new"])
    assert all(" new " in f"{row} " or row.startswith("queue_floor ") for row in changed)
    found = twins.conn.execute(
        "select c.partition_id, c.next_offset, g.mode, g.block, g.max_crashes"
        " from gapless.consumer_group g join gapless.consumer_offsets c using (group_id, topic_id)"
        " join gapless.lease l using (group_id, topic_id, partition_id)"
        " where g.group_id = 'new' order by 1"
    ).fetchall()
    late = int(next_offset > 1)  # one event more is in the first partition
    assert found == [
        (n, next_offset + (late if n == 0 else 0), mode, block, crashes) for n in range(3)
    ]
    assert twins.changes(GROUP.format(how), ["new"]) == {}, "again"


def test_what_is_missing_of_a_group_is_made(twins: Twins) -> None:
    """A partition without a lease; others, of this topic and of the other, have theirs."""
    twins.conn.execute(f"delete from gapless.lease where {twins.here()}")
    twins.conn.execute(f"delete from gapless.consumer_offsets where {twins.here()}")
    number = twins.value(
        "select group_no from gapless.consumer_group"
        " where group_id = 'billing' and topic_id = gapless.topic_id('orders')"
    )
    changed = twins.changes(
        "create temp table answer on commit drop as " + GROUP.format("'latest'") + " as no",
        ["billing"],
    )
    assert {row.split()[0] for row in changed} == {"lease", "consumer_offsets"}
    assert changed["consumer_offsets billing orders 1"]["next_offset"] == (None, 9)
    assert twins.value("select no from answer") == number
    assert twins.value(GROUP.format("'latest'"), "billing") == number


def test_a_queue_is_set_anew(twins: Twins) -> None:
    changed = twins.changes(GROUP.format("'earliest', 'queue', 8, 9"), ["sender"])
    assert changed.pop("consumer_group sender orders") == {"block": (4, 8), "max_crashes": (3, 9)}
    leases = {str(twins.leases["sender", "orders", n]) for n in range(3)}
    assert {row.split()[0] for row in changed} <= {"queue_floor"}
    assert {row.split()[1] for row in changed} <= leases


@pytest.mark.parametrize(("group", "how"), BAD_GROUPS)
def test_groups_that_are_refused(twins: Twins, group: str, how: str) -> None:
    _, text = twins.refused(GROUP.format(how), [group])
    assert text.startswith(BAD_GROUPS[group, how])


@pytest.mark.parametrize("what", BAD_FILTERS)
def test_filters_that_are_refused(twins: Twins, what: str) -> None:
    state, text = twins.refused(FILTER.format(what))
    assert state == "GL400"
    assert text.startswith(BAD_FILTERS[what])


@pytest.mark.parametrize(
    ("group", "state"), [("sender", "GL400"), ("nobody", "GL404"), ("mail", "GL400")]
)
def test_groups_that_have_no_filter(twins: Twins, group: str, state: str) -> None:
    """A queue, one that is not there, and one with subscriptions."""
    twins.conn.execute("select gapless.subscribe('mail', 'orders', 's', condition => '$.n > 1')")
    call = "select gapless.set_filter(%s, 'orders', '{a}')"
    assert twins.refused(call, [group])[0] == state


def test_whether_a_filter_is_another_one(twins: Twins) -> None:
    """Others have other ones; each part of it counts, and what is the same writes nothing."""
    for group, topic in (("mail", "orders"), ("billing", "other")):
        twins.conn.execute("select gapless.set_filter(%s, %s, '{z}')", [group, topic])
    for what in ("'{a}'", "'{b}'", "'{a}', '$.n > $m', '{\"m\": 1}'", "'{a}', '$.n > $m', '{\"m\": 2}'",
                 "'{a}', '$.n < $m', '{\"m\": 2}'", "null, '$.n < $m', '{\"m\": 2}'"):  # fmt: skip
        changed = twins.changes(FILTER.format(what))
        assert {" ".join(row.split()[:3]) for row in changed} == {
            "group_filter billing orders", "consumer_offsets billing orders", "audit filter billing",
        }  # fmt: skip
        number = changed["group_filter billing orders"]["filter_no"][1]
        assert changed["consumer_offsets billing orders 1"]["filter_no"][1] == number
        twins.conn.execute("delete from gapless.audit")
        assert twins.changes(FILTER.format(what)) == {}
        assert twins.value(FILTER.format(what)) is False


@pytest.mark.parametrize(
    ("layout", "passed", "wanted", "after"),
    [(0, 0, 1, (1, 1)), (0, 2, 1, (1, 2)), (1, 1, 3, (3, 3)), (2, 2, 2, (2, 2)), (3, 3, 2, (3, 3))],
)
def test_a_layout_is_entered(
    twins: Twins, layout: int, passed: int, wanted: int, after: tuple[int, int]
) -> None:
    twins.conn.execute(
        "update gapless.consumer_offsets set layout = %s, passed = %s", [layout, passed]
    )
    topic_id = twins.topic_ids["orders"]
    changed = twins.changes("select gapless.enter_layout('billing', %s, 1, %s)", [topic_id, wanted])
    columns = {"layout": (layout, after[0]), "passed": (passed, after[1])}
    expected = {name: pair for name, pair in columns.items() if pair[0] != pair[1]}
    assert changed == ({"consumer_offsets billing orders 1": expected} if expected else {})
