"""Topics that are made, adopted, or take direct messages from now on: what changes, and that nothing else does."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from gapless.db.connect import connect
from gapless.log.sequence import sequence
from support.subscribed import deed
from support.twins import Twins

CREATE = "select gapless.create_topic(%s, %s)"
KEEPING = "select gapless.create_topic(%s, %s, %s, %s)"
ADOPT = "select gapless.adopt_topic(%s, %s, %s, %s)"
DIRECT = "select gapless.set_direct(%s)"
NEXT = "select last_value + 1 from gapless.topic_topic_id_seq"
STRAY = "insert into gapless.unrouted (topic_id, events, first_id, last_id) values (%s, %s, 1, 1)"
MADE: dict[str, Any] = {
    "archive": None, "compacted": False, "direct": False, "layout": 0, "overrun": [], "partitions_ever": None,
    "schemas_no": 0, "retention": None, "dedupe_window": "168:00:00",
}  # fmt: skip


@pytest.fixture(scope="module")
def settled(shared: Twins) -> Twins:
    """Events of ids that are no topic's, too; 78 has three of them, 77 two."""
    shared.conn.execute(
        "insert into gapless.outbox_message_t (topic_id, payload)"
        " select t, '1' from unnest(array[78, 77, 78, 77, 78]) t"
    )
    sequence(shared.conn)
    return shared


@pytest.fixture
def twins(settled: Twins) -> Iterator[Twins]:
    with settled.undone():
        settled.conn.execute("set local statement_timeout = '5s'")  # to look for an id ends
        yield settled


def topics(twins: Twins) -> dict[int, dict[str, Any]]:
    query = "select topic_id, to_jsonb(t) - '{topic_id,created_ts}'::text[] from gapless.topic t"
    return dict(twins.conn.execute(query).fetchall())


def made(twins: Twins, statement: str, *params: Any) -> tuple[Any, dict[int, dict[str, Any]]]:
    """What a call says, and which topics came with it; all others are as they were."""
    before = topics(twins)
    answer = twins.value(statement, *params)
    after = topics(twins)
    assert {number: after[number] for number in before} == before
    return answer, {number: row for number, row in after.items() if number not in before}


@pytest.mark.parametrize("keeping", [False, True])
def test_a_topic_gets_the_next_id_that_nobody_uses(twins: Twins, keeping: bool) -> None:
    """Neither a topic nor events of no topic; ids of others are no matter."""
    number = twins.value(NEXT)
    twins.conn.execute(
        "insert into gapless.topic (topic_id, name, partitions) values (%s, 'put', 1)", [number]
    )
    twins.conn.execute(STRAY, [number + 1, 1])
    statement, more = (KEEPING, [None, None]) if keeping else (CREATE, [])
    answer, came = made(twins, statement, "new", 7, *more)
    assert (answer, came) == (number + 2, {number + 2: MADE | {"name": "new", "partitions": 7}})
    assert made(twins, statement, "new", 7, *more) == (answer, {})
    for wrong in (6, 8):
        said = (
            f'topic "new" has 7 partitions in the database, not {wrong}:'
            f" gapless topics alter new --partitions {wrong} gives it that number"
        )
        assert twins.refused(statement, ["new", wrong, *more]) == ("GL409", said)
    answer, came = made(twins, statement, "newer", 7, *more)
    assert (answer, len(came)) == (number + 3, 1)


@pytest.mark.parametrize(("strays", "used", "is_1"), [(0, 0, True), (3, 0, True), (0, 1, False)])
def test_the_outbox_gets_id_1_if_no_topic_has_it(
    twins: Twins, strays: int, used: int, is_1: bool
) -> None:
    """Events that name no topic may be there already: they are its own."""
    number = twins.value(NEXT)
    if strays:
        twins.conn.execute(STRAY, [1, strays])
    if used:
        twins.conn.execute(
            "insert into gapless.topic (topic_id, name, partitions) values (1, 'first', 1)"
        )
    assert twins.value(CREATE, "outboxes", 1) == number
    assert twins.value(CREATE, "outbox", 1) == (1 if is_1 else number + 1)


def test_a_new_topic_keeps_what_it_is_told(twins: Twins) -> None:
    """One that is there is left as it is."""
    answer, came = made(twins, KEEPING, "short", 2, 60, 30)
    told = {"retention": "00:01:00", "dedupe_window": "00:00:30"}
    assert came == {answer: MADE | {"name": "short", "partitions": 2} | told}
    answer, came = made(twins, KEEPING, "long", 2, 120, None)
    told = {"retention": "00:02:00"}
    assert came == {answer: MADE | {"name": "long", "partitions": 2} | told}
    assert made(twins, KEEPING, "short", 2, 90, 45)[1] == {}
    assert made(twins, KEEPING, "orders", 3, 90, 45) == (twins.topic_ids["orders"], {})


@pytest.mark.parametrize(("number", "events"), [(77, 2), (78, 3)])
def test_an_id_is_adopted_with_its_events(twins: Twins, number: int, events: int) -> None:
    before = topics(twins)
    answer, changed, audited = deed(twins, ADOPT, [number, "new", 4, 60])
    assert (answer, changed) == (events, {})
    assert audited == [("adopt", "", "new", None, {"topic": "new", "events": events})]
    new = MADE | {"name": "new", "partitions": 4, "retention": "00:01:00"}
    assert topics(twins) == before | {number: new}
    taken = f'there is a topic "new" already: give id {155 - number} another name'
    assert twins.refused(ADOPT, [155 - number, "new", 4, None]) == ("GL409", taken)
    nobody = "no event without a topic has id 79: see gapless topics"
    assert twins.refused(ADOPT, [79, "newer", 4, None]) == ("GL404", nobody)


def test_who_sequences_is_told_of_an_adoption(module_dsn: str, settled: Twins) -> None:
    """So that its events get their offsets at once. (This one stays: it is told at the COMMIT.)"""
    number = settled.value("select coalesce(max(topic_id), 0) + 1000 from gapless.topic")
    settled.conn.execute(
        "insert into gapless.outbox_message_t (topic_id, payload) values (%s, '1')", [number]
    )
    sequence(settled.conn)
    with connect(module_dsn, role="test") as listener:
        listener.execute("listen gapless_sequencer")
        settled.conn.execute(ADOPT, [number, f"adopted-{number}", 1, None])
        told = [each.channel for each in listener.notifies(timeout=5, stop_after=1)]
    assert told == ["gapless_sequencer"]


def test_all_groups_of_a_topic_look_for_direct_messages(twins: Twins) -> None:
    """From their next claim on: also one with a filter, which gets another number; no group of another topic."""
    conn = twins.conn
    conn.execute("select gapless.create_group(g, 'orders') from unnest(array['aaa', 'zzz']) g")
    for topic in ("orders", "other"):
        conn.execute("select gapless.set_filter('billing', %s, '{a}')", [topic])
    answer, changed, audited = deed(twins, DIRECT, ["orders"])
    assert (answer, audited) == (True, [("direct", "", "orders", None, {})])
    was, now = changed.pop("filter billing orders")
    assert now == was | {"filter_no": now["filter_no"]}
    assert now["filter_no"] > was["filter_no"]
    groups = ("aaa", "billing", "mail", "zzz", "auditor", "sender")
    places = {f"place {group} orders {n}": group for group in groups for n in range(3)}
    assert sorted(changed) == sorted(places)
    for name, (was, now) in changed.items():
        number = now["filter_no"]
        assert now == was | {"filter_no": number}
        assert number == (_number(twins) if places[name] == "billing" else -1)
    directs = "select array_agg(name order by name) from gapless.topic where direct"
    assert twins.value(directs) == ["orders"]
    assert deed(twins, DIRECT, ["orders"]) == (False, {}, [])
    missing = 'topic "none" does not exist: create it with gapless topics create none'
    assert twins.refused(DIRECT, ["none"]) == ("GL404", missing)


def _number(twins: Twins) -> int:
    query = "select filter_no from gapless.group_filter where group_id = %s and topic_id = %s"
    return int(twins.value(query, "billing", twins.topic_ids["orders"]))


def test_an_id_is_found_by_its_name(twins: Twins) -> None:
    for name, number in twins.topic_ids.items():
        assert twins.value("select gapless.topic_id(%s)", name) == number
    for nobody in (None, ""):
        said = "no topic is named: gapless topics list shows which there are"
        assert twins.refused("select gapless.topic_id(%s)", [nobody]) == ("GL404", said)
    said = 'topic "order" does not exist: create it with gapless topics create order'
    assert twins.refused("select gapless.topic_id('order')") == ("GL404", said)


@pytest.mark.parametrize("number", [0, -1])
def test_no_topic_has_no_partition(twins: Twins, number: int) -> None:
    with (
        pytest.raises(psycopg.Error, match="from 1 to 4096") as refused,
        twins.conn.transaction(),
    ):
        twins.conn.execute(CREATE, ["none", number])
    assert refused.value.sqlstate == "GL400"
