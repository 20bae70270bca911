"""set_partitions(): what a change of a topic writes, of this topic alone, and what it refuses.

Each call is the first in its transaction, so what it needs is committed: topics that were changed before,
events that have no offset yet.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from gapless.db.connect import connect
from gapless.log.sequence import sequence
from support.twins import PUBLISH, Changes, Twins

GROUPS = ("auditor", "billing", "mail", "sender")
MEMBER = "00000000-0000-0000-0000-00000000000a"
TOPICS = """
select gapless.create_topic(t, 2) from unnest('{broken,lonely}'::text[]) t;
select gapless.create_group('mail', 'broken');
delete from gapless.consumer_offsets where topic_id = gapless.topic_id('broken') and partition_id = 1;
"""
PLANNED = f"update gapless.consumer_group set planned_for = array['{MEMBER}']::uuid[]"
KEY = "select 'k' || n from generate_series(1, 100) n where gapless.partition_of('k' || n, 5) = %s limit 1"
CALL = "select gapless.set_partitions(%s, %s)"
LATE = "select count(*) from gapless.outbox_message_t where event_type = 'late one'"
SEQUENCED = {"log_segment", "sequencer"}  # what a run of the sequencer writes


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Twins]:
    """Orders had 3 partitions and has 5, with an event in the last; the other one had 3, 5, and has 2."""
    with connect(module_dsn, role="test") as conn:
        twins = Twins(conn)
        for topic, partitions in (("orders", 5), ("other", 5), ("other", 2)):
            conn.execute(CALL, [topic, partitions])
        conn.execute(PUBLISH, ["orders", "a", twins.value(KEY, 4)])
        while sequence(conn):
            pass
        conn.execute(TOPICS)
        conn.execute(PLANNED)
        for topic in ("broken", "lonely"):
            twins.topic_ids[topic] = twins.value("select gapless.topic_id(%s)", topic)
        yield twins


@pytest.fixture
def late(shared: Twins) -> Iterator[Twins]:
    """What is published has no offset yet, in partition 3 of orders."""
    shared.conn.execute(PUBLISH, ["orders", "late one", shared.value(KEY, 3)])
    with shared.undone():
        yield shared


def change(twins: Twins, topic: str, partitions: int) -> Changes:
    """All but what the sequencer writes, and what members see of it."""
    changed = twins.changes(CALL, [topic, partitions])
    return {name: row for name, row in changed.items() if name.split()[0] not in SEQUENCED}


def planned(topic: str) -> Changes:
    plan = {"planned_for": (f'["{MEMBER}"]', "[]")}
    return {f"consumer_group {group} {topic}": plan for group in GROUPS}


def test_fewer_partitions(late: Twins) -> None:
    """Only what has events of the layout that ends gets a barrier; what had none yet is given its offset before."""
    count = late.value(LATE)
    changed = change(late, "orders", 2)
    began = changed.pop("layout orders 2")
    assert began["partitions"] == (None, 2)
    barriers = {
        name: changed.pop(name)["last_offset"]
        for name in sorted(changed)
        if name.startswith("barrier ")
    }
    assert barriers == {"barrier orders 1 3": (None, count), "barrier orders 1 4": (None, 1)}
    assert changed == {
        **planned("orders"),
        "topic orders": {"partitions": (5, 2), "layout": (1, 2), "partitions_ever": (3, 5)},
    }


def test_more_partitions(late: Twins) -> None:
    """Each group begins with them at once."""
    changed = change(late, "orders", 7)
    added = {
        f"{table} {group} orders {n}"
        for table in ("consumer_offsets", "lease")
        for group in GROUPS
        for n in (5, 6)
    }
    floors = {
        f"queue_floor {changed[f'lease {group} orders {n}']['lease_no'][1]} 1"
        for group in ("auditor", "sender")
        for n in (5, 6)
    }
    assert set(changed) == added | floors | set(planned("orders")) | {
        "topic orders", "layout orders 2", "barrier orders 1 3", "barrier orders 1 4",
    }  # fmt: skip


def test_the_most_that_it_ever_had(late: Twins) -> None:
    """No event came in this layout: there is nothing to wait for."""
    changed = change(late, "other", 4)
    assert changed.pop("layout other 3")["partitions"] == (None, 4)
    assert changed == {
        **planned("other"),
        "topic other": {"partitions": (2, 4), "layout": (2, 3)},
    }


@pytest.mark.parametrize("partitions", [1, 4096])
def test_the_first_change(late: Twins, partitions: int) -> None:
    """The layout that ends began with the topic."""
    changed = change(late, "lonely", partitions)
    assert {name: row["partitions"] for name, row in changed.items()} == {
        "layout lonely 0": (None, 2),
        "layout lonely 1": (None, partitions),
        "topic lonely": (2, partitions),
    }
    assert changed["topic lonely"] == {
        "partitions": (2, partitions), "layout": (0, 1), "partitions_ever": (None, 2),
    }  # fmt: skip
    began = (
        "select l.began_ts = t.created_ts from gapless.layout l join gapless.topic t using (topic_id)"
        " where t.name = 'lonely' order by l.layout"
    )
    assert late.conn.execute(began).fetchall() == [(True,), (False,)]


@pytest.mark.parametrize(("topic", "partitions"), [("orders", 5), ("other", 2), ("lonely", 2)])
def test_the_same_number_changes_nothing(late: Twins, topic: str, partitions: int) -> None:
    assert change(late, topic, partitions) == {}


@pytest.mark.parametrize(
    ("topic", "partitions", "layout"),
    [("orders", 5, 1), ("orders", 4, 2), ("other", 2, 2), ("other", 3, 3), ("lonely", 2, 0)],
)
def test_the_layout_is_returned(late: Twins, topic: str, partitions: int, layout: int) -> None:
    assert late.value(CALL, topic, partitions) == layout


@pytest.mark.parametrize(("partitions", "said"), [(0, "0"), (4097, "4097"), (None, "null")])
def test_numbers_that_cannot_be(late: Twins, partitions: Any, said: str) -> None:
    text = f'topic "lonely": partitions must be from 1 to 4096, not {said}'
    assert late.refused(CALL, ["lonely", partitions]) == ("GL400", text)


ALONE = "gapless.set_partitions() must run in a READ COMMITTED transaction of its own"


@pytest.mark.parametrize(
    "before",
    [
        "set transaction isolation level repeatable read",
        "set transaction isolation level serializable",
        "select pg_current_xact_id()",
    ],
)
def test_a_transaction_in_which_it_cannot_be(late: Twins, before: str) -> None:
    late.conn.execute(before)
    assert late.refused(CALL, ["lonely", 3]) == ("25000", ALONE)


def test_a_group_that_has_no_place(late: Twins) -> None:
    """Nobody could say what it has to finish first. Other topics are none of its business."""
    state, text = late.refused(CALL, ["broken", 3])
    assert state == "GL409"
    assert text.startswith('group "mail" has lost its offset of broken/1: ')
