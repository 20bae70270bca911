"""What pausing, filtering, replaying and restoring write, of this group, topic and partition alone."""

import pytest

from support.twins import Twins

NOBODY = "00000000-0000-0000-0000-000000000000"
HOLDER = "00000000-0000-0000-0000-00000000000a"
TOKEN = "00000000-0000-0000-0000-00000000000b"


def run(twins: Twins, statements: str, **words: object) -> None:
    """Run statements in which {here} stands for what is true of billing/orders/1."""
    twins.conn.execute(statements.format(here=twins.here(), **twins.topic_ids, **words))


# A pause, and the partitions of the rows that it makes in orders and in the other topic.
PAUSES: dict[str, tuple[str, list[tuple[str, int]]]] = {
    "all": ("'billing'", [("orders", -1), ("other", -1)]),
    "a topic": ("'billing', 'orders'", [("orders", -1)]),
    "a partition": ("'billing', 'orders', 1", [("orders", 1)]),
}


@pytest.mark.parametrize("holder", [NOBODY, HOLDER])
@pytest.mark.parametrize("name", PAUSES)
def test_a_pause(twins: Twins, name: str, holder: str) -> None:
    """Of each holder there is one; all others are paused already. What is new is audited."""
    twins.conn.execute("select gapless.pause('mail'), gapless.pause('billing', 'orders', 2)")
    twins.conn.execute("delete from gapless.audit")
    arguments, places = PAUSES[name]
    call = f"select gapless.pause({arguments}, reason => 'why', holder => '{holder}')"
    changed = twins.changes(call)
    expected = {}
    for topic, partition in places:
        said = None if partition == -1 else partition
        expected[f"group_pause billing {topic} {partition} {holder}"] = (None, "why")
        expected[f"audit pause billing {topic} {said}"] = (
            None, f'{{"holder": "{holder}", "reason": "why"}}',
        )  # fmt: skip
    got = {key: row["reason"] if "reason" in row else row["detail"] for key, row in changed.items()}
    assert got == expected
    assert twins.value(call) == 0, "again"
    other = TOKEN if holder == HOLDER else HOLDER
    assert twins.value(call.replace(holder, other)) == len(places)


PAUSED = """
select gapless.pause(g, t, holder => h) from unnest('{{billing,mail}}'::text[]) g,
  unnest('{{orders,other}}'::text[]) t, unnest(array['{a}', '{b}']::uuid[]) h where {where};
select gapless.pause(g, t, p, holder => h) from unnest('{{billing,mail}}'::text[]) g,
  unnest('{{orders,other}}'::text[]) t, unnest(array['{a}', '{b}']::uuid[]) h, unnest('{{1,2}}'::int[]) p;
"""
# What is resumed, and which pauses of both holders end: topics, partitions, and of whom
RESUMES: dict[str, tuple[str, str, list[int], str]] = {
    "all": ("'billing'", "orders other", [-1, 1, 2], NOBODY + HOLDER),
    "a topic": ("'billing', 'orders'", "orders", [-1, 1, 2], NOBODY + HOLDER),
    "a topic, of one holder": (f"'billing', 'orders', holder => '{HOLDER}'", "orders", [-1, 1, 2], HOLDER),
    "a partition, of one holder": (f"'billing', 'orders', 1, '{HOLDER}'", "orders", [-1, 1], HOLDER),
    "a partition": ("'billing', 'orders', 1", "orders", [1], NOBODY + HOLDER),
}  # fmt: skip


@pytest.mark.parametrize("name", RESUMES)
def test_what_a_resume_ends(twins: Twins, name: str) -> None:
    """One partition alone can be resumed while its topic is not paused as a whole: others may be."""
    arguments, topics, partitions, holders = RESUMES[name]
    where = "g <> 'billing' or t <> 'orders'" if name == "a partition" else "true"
    run(twins, PAUSED, a=NOBODY, b=HOLDER, where=where)
    twins.conn.execute("delete from gapless.audit")
    gone = {
        f"group_pause billing {topic} {partition} {holder}"
        for topic in topics.split()
        for partition in partitions
        for holder in (NOBODY, HOLDER)
        if holder in holders
    }
    query = "select group_id, t.name, partition_id, holder::text from gapless.group_pause p join gapless.topic t using (topic_id)"
    before = set(twins.conn.execute(query).fetchall())
    assert twins.value(f"select gapless.resume({arguments})") == len(gone)
    after = set(twins.conn.execute(query).fetchall())
    assert {f"group_pause {g} {t} {p} {h}" for g, t, p, h in before - after} == gone
    noted = "select group_id, t.name, coalesce(partition_id, -1), detail ->> 'holder' from gapless.audit a join gapless.topic t using (topic_id) where action = 'resume' and detail ? 'paused_ts'"
    assert sorted(twins.conn.execute(noted).fetchall()) == sorted(before - after)


def test_a_partition_of_what_is_paused_as_a_whole(twins: Twins) -> None:
    run(twins, "select gapless.pause('billing', 'orders')")
    state, text = twins.refused("select gapless.resume('billing', 'orders', 1)")
    assert (state, text[:35]) == ("GL409", 'group "billing" is paused as a whol')


FILTERS = """
select gapless.set_filter(g, t, '{{a}}') from unnest('{{billing,mail}}'::text[]) g, unnest('{{other,orders}}'::text[]) t;
insert into gapless.filter_tally (group_id, topic_id, partition_id, filter_no, kept, passed, unasked)
select group_id, topic_id, partition_id, filter_no, 1, 1, 1 from gapless.consumer_offsets;
delete from gapless.audit;
"""
CLEAR = "select gapless.clear_filter('billing', 'orders')"


@pytest.mark.parametrize("direct", [True, False])
def test_a_filter_is_taken_away(twins: Twins, direct: bool) -> None:
    """With what was counted of it. Where events may be for one group, the group has to look for that."""
    run(twins, FILTERS)
    run(twins, "update gapless.topic set direct = (name = 'orders') = {direct}", direct=direct)
    number = twins.value(f"select filter_no from gapless.consumer_offsets where {twins.here()}")
    changed = twins.changes(CLEAR)
    assert changed.pop("group_filter billing orders")["filter_no"] == (number, None)
    assert changed.pop("audit unfilter billing orders None")
    for n in range(3):
        assert changed.pop(f"filter_tally billing orders {n}")
        assert changed.pop(f"consumer_offsets billing orders {n}") == {
            "filter_no": (number, -1 if direct else 0)
        }
    assert changed == {}
    assert twins.changes(CLEAR) == {}, "again"
    assert twins.value(CLEAR) is False


def test_whether_there_was_a_filter(twins: Twins) -> None:
    run(twins, FILTERS)
    assert twins.value(CLEAR) is True


@pytest.mark.parametrize("there", [("billing", "orders"), ("billing", "other"), ("mail", "orders")])
def test_a_group_with_subscriptions_keeps_its_filter(twins: Twins, there: tuple[str, str]) -> None:
    run(twins, "delete from gapless.group_filter")
    twins.conn.execute("select gapless.subscribe(%s, %s, 's', condition => '$.n > 1')", there)
    if there == ("billing", "orders"):
        state, text = twins.refused(CLEAR)
        assert (state, text[:45]) == ("GL400", 'group "billing" takes the events that its sub')
        run(twins, "delete from gapless.subscription")
        assert twins.value(CLEAR) is True, "it takes nothing no more"
    else:
        assert twins.value(CLEAR) is False


@pytest.mark.parametrize("is_filtered", [True, False])
@pytest.mark.parametrize("direct", [True, False])
def test_a_new_row_begins_with_the_filter_of_its_group(
    twins: Twins, is_filtered: bool, direct: bool
) -> None:
    run(twins, FILTERS)
    run(twins, "update gapless.topic set direct = (name = 'orders') = {direct}", direct=direct)
    number = twins.value(
        f"select filter_no from gapless.group_filter where {twins.here().split(' and partition')[0]}"
    )
    if not is_filtered:
        twins.conn.execute("delete from gapless.group_filter where filter_no = %s", [number])
    changed = twins.changes(
        "insert into gapless.consumer_offsets (group_id, topic_id, partition_id)"
        f" values ('billing', {twins.topic_ids['orders']}, 7)"
    )
    expected = number if is_filtered else -1 if direct else 0
    assert changed["consumer_offsets billing orders 7"]["filter_no"] == (None, expected)
    assert len(changed) == 1


RESTORED: dict[str, tuple[str, list[str]]] = {
    "a partition": ("'billing', 'orders', 1", ["orders 1"]),
    "one that is there": ("'billing', 'orders', 0", []),
    "a topic": ("'billing', 'orders'", ["orders 1", "orders 2"]),
    "all": ("'billing'", ["orders 1", "orders 2", "other 1", "other 2"]),
}
LOST = """
delete from gapless.consumer_offsets where partition_id > 0 and {where};
update gapless.lease set epoch = 9;
delete from gapless.audit;
insert into gapless.log_start select topic_id, p, 4, now() from gapless.topic, generate_series(1, 2) p;
"""


@pytest.mark.parametrize("where", ["true", "group_id = 'billing'", "topic_id = {orders}"])
@pytest.mark.parametrize("name", RESTORED)
def test_rows_that_are_gone_come_back(twins: Twins, name: str, where: str) -> None:
    """Where the log begins, with the lease's epoch; each is audited."""
    arguments, places = RESTORED[name]
    run(twins, LOST, where=where.format(**twins.topic_ids))
    if where.startswith("topic_id"):
        places = [place for place in places if place.startswith("orders")]
    changed = twins.changes(
        f"create temp table n on commit drop as select gapless.restore_offsets({arguments}) as n"
    )
    assert twins.value("select n from n") == len(places)
    rows = {f"consumer_offsets billing {place}" for place in places}
    assert set(changed) == rows | {f"audit restore billing {place}" for place in places}
    for row in rows:
        assert (changed[row]["next_offset"], changed[row]["epoch"]) == ((None, 4), (None, 9))
