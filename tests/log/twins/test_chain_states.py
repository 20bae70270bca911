"""What groups have done with a transaction, and with what came of it: the same, however the twins stand."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from support.chains import FIRST, NOBODY, PLACES, SECOND, Chains, Place

LOCATE = "select * from gapless.locate('{}'{}) order by topic_id, partition_id, first_offset"
A, B, C = ("orders", 1, 9, 12, 3), ("orders", 2, 9, 9, 1), ("other", 1, 9, 9, 1)


def located(chains: Chains, transaction_id: UUID, topics: str = "") -> list[Any]:
    names = {number: name for name, number in chains.twins.topic_ids.items()}
    topics = topics and ", array[" + topics + "]"
    return [(names[row[0]], *row[1:]) for row in chains.rows(LOCATE.format(transaction_id, topics))]


def test_where_the_events_of_a_transaction_are(chains: Chains) -> None:
    assert located(chains, FIRST) == [C, A, B]
    assert located(chains, FIRST, "{orders}") == [A, B]
    assert located(chains, FIRST, "{other}") == [C]
    assert located(chains, FIRST, "{other}, {orders}, 77") == [C, A, B]
    assert located(chains, FIRST, "77") == []
    assert located(chains, SECOND) == [(*PLACES["g"], 1)]
    assert located(chains, chains.unnamed["i"]) == [(*PLACES["i"], 1)]
    assert located(chains, NOBODY) == []


def test_an_xid_of_another_timeline_is_another_transaction_s(chains: Chains) -> None:
    xid = int(chains.unnamed["i"].hex[17:], 16)
    assert located(chains, chains.derived(xid, 2)) == []
    assert located(chains, chains.derived(xid, 1)) == [(*PLACES["i"], 1)]
    chains.run("update gapless.log_segment set timeline = 2 where topic_id = {orders}")
    assert located(chains, chains.derived(xid, 2)) == [(*PLACES["i"], 1)]
    assert located(chains, chains.unnamed["i"]) == []
    assert located(chains, FIRST) == [C, A, B]


def test_what_has_no_offset_yet(chains: Chains) -> None:
    chains.publish_late("orders", 1, of=FIRST)
    assert located(chains, FIRST) == [C, A, ("orders", 2, 9, 9, 1), ("orders", None, None, None, 1)]
    chains.publish_late("orders", 0, of=None)
    chains.publish_late("orders", 0, of=None)
    own = chains.own()
    assert located(chains, own) == [("orders", None, None, None, 2)]
    assert located(chains, own, "{other}") == []
    xid = int(own.hex[17:], 16)
    assert located(chains, chains.derived(xid, 2)) == []
    chains.publish_late("other", 0, of=NOBODY)
    assert located(chains, NOBODY) == [("other", None, None, None, 1)]


@pytest.mark.parametrize("further", [0, 2**40])
def test_an_xid_of_the_future_came_from_another_cluster(chains: Chains, further: int) -> None:
    """From the next one on that will be given here."""
    chains.publish_late("orders", 1, of=None)
    own = "select pg_snapshot_xmax(pg_current_snapshot())::text"
    xid = int(chains.value(own)) + further
    chains.run(f"update gapless.outbox_message_t set xid = '{xid}' where id = {chains.ids['i'][0]}")
    assert int(chains.value(own)) + further == xid
    assert located(chains, chains.derived(xid)) == [(*PLACES["i"], 1)]


STATE = "select gapless.transaction_state('{}', '{}')"
BILLING = "group_id = 'billing' and "
LATER = (
    "insert into gapless.scheduled (deliver_at, timeline, topic_id, transaction_id, cause, correlation, payload)"
    " values (now() + interval '1 hour', 1, {{{}}}, {}, {}, {}, '1')"
)
P1, P2, C1 = ("topic_id = {orders} and partition_id = 1", "topic_id = {orders} and partition_id = 2",
              "topic_id = {other} and partition_id = 1")  # fmt: skip
# Where billing stands, in one partition, and every other group where it is now; what it has done with the first.
STANDS = [
    (12, P1, "pending"), (13, P1, "handled"), (1, P1, "pending"), (9, P2, "pending"), (10, P2, "handled"),
    (9, C1, "pending"), (10, C1, "handled"), (1, "partition_id = 0", "handled"),
    (1, "topic_id = {other} and partition_id = 2", "handled"),
]  # fmt: skip


@pytest.mark.parametrize(("next_offset", "where", "state"), STANDS)
def test_a_group_has_handled_what_it_passed(
    chains: Chains, next_offset: int, where: str, state: str
) -> None:
    chains.seek(next_offset, BILLING + where)
    assert chains.value(STATE.format("billing", FIRST)) == state
    chains.seek(1, f"group_id <> 'billing' or not ({where})")
    chains.seek(100, f"group_id = 'billing' and not ({where})")
    assert chains.value(STATE.format("billing", FIRST)) == state


def test_a_group_without_a_place_has_handled_nothing(chains: Chains) -> None:
    chains.run(f"delete from gapless.consumer_offsets where {BILLING} {P2}")
    assert chains.value(STATE.format("billing", FIRST)) == "pending"
    assert chains.value(STATE.format("mail", FIRST)) == "handled"
    assert chains.value(STATE.format("billing", SECOND)) == "handled"


# What is set aside: by which group, where, in which state, of which transaction.
ASIDE: list[tuple[list[tuple[str, Place, str, UUID]], str]] = [
    ([("billing", PLACES["a"], "dead", FIRST)], "dead"),
    ([("billing", PLACES["a"], "discarded", FIRST)], "dead"),
    ([("billing", PLACES["a"], "redriven", FIRST)], "handled"),
    ([("billing", PLACES["b"], "waiting", FIRST)], "waiting"),
    ([("billing", PLACES["c"], "parked", FIRST)], "waiting"),
    ([("billing", PLACES["c"], "dead", FIRST), ("billing", PLACES["b"], "waiting", FIRST)], "waiting"),
    ([("billing", PLACES["a"], "waiting", FIRST), ("billing", PLACES["l"], "dead", FIRST)], "waiting"),
    ([("billing", PLACES["l"], "dead", FIRST)], "dead"),
    ([("mail", PLACES["a"], "dead", FIRST)], "handled"),
    ([("billing", PLACES["g"], "dead", SECOND)], "handled"),
    ([("billing", ("orders", 2, 8, 8), "dead", FIRST), ("billing", ("orders", 2, 10, 10), "dead", FIRST)], "handled"),
    ([("billing", ("orders", 0, 9, 9), "dead", FIRST), ("billing", ("other", 2, 9, 9), "dead", FIRST)], "handled"),
]  # fmt: skip


@pytest.mark.parametrize(("letters", "state"), ASIDE)
def test_what_a_group_put_aside(chains: Chains, letters: list[Any], state: str) -> None:
    for letter in letters:
        chains.aside(*letter)
    assert chains.value(STATE.format("billing", FIRST)) == state
    chains.seek(1, BILLING + P2)
    assert chains.value(STATE.format("billing", FIRST)) == "pending"


@pytest.mark.parametrize(
    ("group", "transaction_id", "state"),
    [
        ("solo", FIRST, "handled"), ("solo", SECOND, "elsewhere"), ("solo", NOBODY, "unknown"),
        ("billing", NOBODY, "unknown"),
    ],
)  # fmt: skip
def test_of_which_topics_a_group_answers(
    chains: Chains, group: str, transaction_id: UUID, state: str
) -> None:
    chains.seek(1, "topic_id = {orders}")
    assert chains.value(STATE.format(group, transaction_id)) == state


def test_what_waits_for_its_time(chains: Chains) -> None:
    chains.run(LATER.format("orders", f"'{FIRST}'", "null", "null"))
    assert chains.value(STATE.format("billing", FIRST)) == "scheduled"
    assert chains.value(STATE.format("solo", FIRST)) == "handled"
    assert chains.value(STATE.format("billing", SECOND)) == "handled"
    chains.run(LATER.format("orders", f"'{NOBODY}'", "null", "null"))
    assert chains.value(STATE.format("solo", NOBODY)) == "elsewhere"


def test_what_is_not_sequenced_is_not_handled(chains: Chains) -> None:
    assert chains.value(STATE.format("billing", chains.own())) == "open"
    chains.publish_late("orders", 0, of=FIRST)
    assert chains.value(STATE.format("billing", FIRST)) == "unsequenced"
    assert chains.value(STATE.format("solo", FIRST)) == "handled"
    chains.publish_late("orders", 0, of=None)
    assert chains.value(STATE.format("solo", chains.own())) == "elsewhere"
    assert chains.value(STATE.format("billing", chains.own())) == "open"


NO_GROUP = ("GL404", 'there is no group "nobody": gapless groups lists them')


def test_an_unknown_group_is_an_error(chains: Chains) -> None:
    assert chains.twins.refused(STATE.format("nobody", FIRST)) == NO_GROUP
    for groups in ("'nobody'", "'billing', 'nobody'"):
        query = f"select * from gapless.chain_state(array[{groups}], '{FIRST}')"
        assert chains.twins.refused(query) == NO_GROUP
    which = "of which groups? the first, then those that handle what it publishes"
    for none in ("'{}'", "null"):
        query = f"select * from gapless.chain_state({none}, '{FIRST}')"
        assert chains.twins.refused(query) == ("GL400", which)


UNIT = "select * from gapless.unit_state('{}', {{{}}}, {}, {}, {})"


def unit(chains: Chains, group: str, place: Place) -> Any:
    (row,) = chains.rows(UNIT.format(group, *place))
    return row


# What is set aside of offsets 9 and 10 of partition 1; state, letter, reason of the two as one unit.
WORST: list[tuple[list[tuple[int, str]], tuple[str, str | None, str | None]]] = [
    ([], ("handled", None, None)),
    ([(9, "redriven")], ("handled", "redriven", "why")),
    ([(9, "dead")], ("dead", "dead", "why")),
    ([(10, "discarded")], ("dead", "discarded", "of no use")),
    ([(9, "waiting")], ("waiting", "waiting", "why")),
    ([(10, "parked")], ("waiting", "parked", "why")),
    ([(9, "redriven"), (10, "dead")], ("dead", "dead", "why")),
    ([(9, "dead"), (10, "waiting")], ("waiting", "waiting", "why")),
    ([(9, "discarded"), (10, "dead")], ("dead", "discarded", "of no use")),
    ([(9, "dead"), (10, "discarded")], ("dead", "dead", "why")),
    ([(9, "parked"), (10, "waiting")], ("waiting", "parked", "why")),
    ([(9, "redriven"), (10, "waiting")], ("waiting", "waiting", "why")),
    ([(8, "dead"), (11, "waiting")], ("handled", None, None)),
    ([(8, "waiting"), (9, "dead"), (11, "waiting")], ("dead", "dead", "why")),
]  # fmt: skip


@pytest.mark.parametrize(("letters", "says"), WORST)
def test_the_worst_of_a_unit_tells(
    chains: Chains, letters: list[tuple[int, str]], says: tuple[str, str | None, str | None]
) -> None:
    """What is so in other groups, topics and partitions does not."""
    for offset, state in letters:
        chains.aside("billing", ("orders", 1, offset, offset), state)
    for elsewhere in (("mail", "orders", 1), ("billing", "other", 1), ("billing", "orders", 2)):
        group, *place = elsewhere
        chains.aside(group, (*place, 9, 10), "waiting")  # type: ignore[arg-type]
    state, letter, reason = says
    row = unit(chains, "billing", PLACES["a"])
    assert row == (state, 100, letter, reason, 3 if letter else None)


def test_a_reason_is_told_in_200_characters(chains: Chains) -> None:
    chains.aside("billing", PLACES["a"], "dead")
    chains.run("update gapless.dead_letter set reason = repeat('x', 201)")
    assert unit(chains, "billing", PLACES["a"])[3] == "x" * 200


@pytest.mark.parametrize(
    ("next_offset", "where", "state"),
    [
        (11, P1, ("handled", 11)), (10, P1, ("pending", 10)), (9, P1, ("pending", 9)), (1, P2, ("handled", 100)),
        (1, "topic_id = {other} and partition_id = 1", ("handled", 100)),
    ],
)  # fmt: skip
def test_where_a_group_stands_at_a_unit(
    chains: Chains, next_offset: int, where: str, state: tuple[str, int]
) -> None:
    chains.seek(next_offset, BILLING + where)
    chains.seek(1, f"group_id = 'mail' and {where}")
    chains.aside("billing", PLACES["l"], "dead")
    assert unit(chains, "billing", PLACES["a"]) == (*state, None, None, None)


def test_a_group_that_is_no_more_of_the_topic(chains: Chains) -> None:
    assert unit(chains, "solo", PLACES["a"]) == ("removed", *[None] * 4)
    assert unit(chains, "solo", PLACES["c"])[:2] == ("handled", 100)
    assert unit(chains, "nobody", PLACES["c"])[0] == "removed"
    chains.run(f"delete from gapless.consumer_offsets where group_id = 'billing' and {P1}")
    assert unit(chains, "billing", PLACES["a"]) == ("pending", *[None] * 4)


def test_what_is_set_aside_of_a_transaction(chains: Chains) -> None:
    query = "select gapless.states_aside('billing', {{orders}}, 1, 9, {}, '{}')"
    assert chains.value(query.format(10, FIRST)) == []
    chains.aside("billing", ("orders", 1, 9, 9), "parked")
    chains.aside("billing", ("orders", 1, 10, 10), "dead")
    chains.aside("billing", ("orders", 1, 11, 11), "dead", SECOND)
    assert sorted(chains.value(query.format(10, FIRST))) == ["dead", "waiting"]
    assert chains.value(query.format(9, FIRST)) == ["waiting"]
    assert chains.value(query.format(11, SECOND)) == ["dead"]
    assert chains.value(query.format(11, uuid4())) == []
