"""A dedupe_key among keys that are nearly the same: in which slots it is looked for, how old it may be, what is told.

Slot 1 takes new keys, slot 0 closes, slot 2 is closed, slot 3 is empty. Ages are in 10 s, the window of orders is 100 of
them, that of other is 1000.
"""

from collections.abc import Iterator
from threading import Thread
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.stored import Key, Stored, call, own_id
from support.twins import Twins

HERE = "00000000-0000-4000-8000-000000000001"
ELSEWHERE = "00000000-0000-4000-8000-000000000002"
GIVEN = "00000000-0000-4000-8000-000000000003"
ONCE = (
    "select transaction_id::text, message_id, duplicate, scheduled_id from gapless.publish_once("
    "'orders', '7', %(key)s, transaction_id => %(id)s, digest => %(digest)s, deliver_in => %(in)s::interval)"
)
PUT = (
    "insert into gapless.dedupe (slot, topic_id, dedupe_key, transaction_id, message_id, published_ts, digest)"
    " values (%s, gapless.topic_id(%s), %s, %s, %s, clock_timestamp() - make_interval(secs => %s), %s)"
)
# The same everywhere, with what is not looked for: other keys, another topic's, and a slot that is not in use.
BESIDE: dict[Key, int] = {
    (slot, topic, key): 50
    for slot in (0, 1, 2, 3)
    for topic, key in (("orders", "A"), ("orders", "aa"), ("orders", ""), ("other", "a"))
} | {(3, "orders", "a"): 50}


def state(twins: Twins, closing: int | None = 0, closed: str = "{2}") -> None:
    twins.conn.execute(
        "update gapless.dedupe_state set slot = 1, closing = %s, closed = %s", [closing, closed]
    )
    twins.conn.execute(
        "update gapless.topic set dedupe_window = case name when 'orders' then interval '1000 s'"
        " else interval '10000 s' end"
    )


def put(twins: Twins, keys: dict[Key, int], of: str, digest: bytes | None = None) -> dict[Key, Any]:
    """Put keys there, of such ages, in 10 s; each has a message of its own."""
    made = {}
    for nth, ((slot, topic, key), age) in enumerate(keys.items(), 1):
        message = nth + (100 if of == HERE else 200)
        twins.conn.execute(PUT, [slot, topic, key, of, message, age * 10, digest])
        made[slot, topic, key] = (of, message, digest, age)
    return made


def once(twins: Twins, **more: Any) -> Stored:
    return call(twins, ONCE, {"key": "a", "id": None, "digest": None, "in": None} | more)


# Of each slot how old the key is there; which is the one that counts, if any.
LOOKS: list[tuple[dict[int, int], int | None]] = [
    ({}, None), ({0: 5}, 0), ({1: 5}, 1), ({2: 5}, 2), ({0: 200}, None), ({1: 200}, None), ({2: 200}, None),
    ({0: 5, 1: 6}, 0), ({0: 200, 1: 5}, 1), ({1: 200, 2: 5}, 2), ({0: 200, 1: 200, 2: 5}, 2), ({0: 5, 2: 6}, 0),
    ({0: 200, 1: 200, 2: 200}, None), ({0: 99}, 0), ({1: 99}, 1), ({2: 99}, 2), ({1: 101}, None), ({2: 101}, None),
]  # fmt: skip


@pytest.mark.few(18)
@pytest.mark.parametrize("given", [None, GIVEN], ids=["none", "own"])
@pytest.mark.parametrize("closing", [0, None], ids=["closing", "closed"])
@pytest.mark.parametrize(("ages", "counts"), LOOKS)
def test_where_a_key_is_looked_for(
    twins: Twins, ages: dict[int, int], counts: int | None, closing: int | None, given: str | None
) -> None:
    """What counts is told, and nothing is stored; else the key is where new keys go, and nowhere else."""
    state(twins, closing, "{2}" if closing is not None else "{0,2}")
    beside = put(twins, BESIDE, ELSEWHERE)
    mine = put(twins, {(slot, "orders", "a"): age for slot, age in ages.items()}, HERE, b"d")
    if closing is None and counts == 0 and ages.get(1, 200) < 100:
        counts = 1
    stored = once(twins, id=given, digest=b"d")
    if counts is not None:
        assert stored.nothing
        assert stored.returned == [(HERE, mine[counts, "orders", "a"][1], True, None)]
        assert stored.keys == beside | mine
        return
    known = given or own_id(twins)
    assert stored.events == [("orders", None, None, "7", *(None,) * 3, given, None, None)]
    assert stored.returned == [(known, stored.ids[0], False, None)]
    new = {
        (slot, "orders", "a"): (known, stored.ids[0], b"d", 0)
        for slot in (closing, 1)
        if slot is not None
    }
    assert stored.keys == beside | mine | new
    again = once(twins, digest=b"d")
    assert again.nothing
    assert again.returned == [(known, stored.ids[0], True, None)]


@pytest.mark.parametrize("closing", [0, None], ids=["closing", "closed"])
@pytest.mark.parametrize("ages", [{}, {1: 200}, {0: 200, 1: 200}, {0: 200}])
def test_the_key_of_what_is_for_later_has_no_message(
    twins: Twins, ages: dict[int, int], closing: int | None
) -> None:
    state(twins, closing, "{2}" if closing is not None else "{0,2}")
    mine = put(twins, {(slot, "orders", "a"): age for slot, age in ages.items()}, HERE)
    stored = once(twins, **{"in": "100 s"})
    own = own_id(twins)
    assert stored.events == []
    assert stored.returned == [(own, None, False, stored.waiting_ids[0])]
    new = {(slot, "orders", "a"): (own, None, None, 0) for slot in (closing, 1) if slot is not None}
    assert stored.keys == mine | new
    again = once(twins, **{"in": "200 s"})
    assert again.nothing
    assert again.returned == [(own, None, True, None)]
    assert twins.value("select gapless.cancel(%s)", stored.waiting_ids[0]) is True
    first = once(twins)
    assert first.returned == [(own, first.ids[0], False, None)]


@pytest.mark.parametrize("age_s", [5, 200], ids=["young", "old"])
@pytest.mark.parametrize(
    ("before", "now", "is_refused"),
    [
        (b"d", b"d", False), (b"d", b"e", True), (b"d", None, True), (None, b"d", True), (None, None, False),
        (b"d", b"", True),
    ],
)  # fmt: skip
def test_a_key_stands_for_its_contents(
    twins: Twins, before: bytes | None, now: bytes | None, is_refused: bool, age_s: int
) -> None:
    """As long as it counts; then it stands for the new ones."""
    state(twins)
    mine = put(twins, {(1, "orders", "a"): age_s}, HERE, before)
    params = {"key": "a", "id": None, "digest": now, "in": None}
    if is_refused and age_s < 100:
        whose = "request and each event" if None in (before, now) else "request"
        assert twins.refused(ONCE, params) == (
            "GL422",
            f'key "a" came with other contents before: give each {whose} a key of its own',
        )
        return
    stored = call(twins, ONCE, params)
    if age_s < 100:
        assert stored.nothing
        assert stored.keys == mine
    else:
        new = (own_id(twins), stored.ids[0], now, 0)
        assert stored.keys == {(slot, "orders", "a"): new for slot in (0, 1)}


@pytest.mark.parametrize("window_s", [49.0, 51.0, 0.000001])
def test_a_window_counts_from_now_on(twins: Twins, window_s: float) -> None:
    """Of this topic alone."""
    mine = put(twins, {(0, "orders", "a"): 5, (0, "other", "a"): 5}, HERE)
    before = dict(twins.conn.execute("select name, dedupe_window from gapless.topic").fetchall())
    twins.conn.execute("select gapless.set_dedupe_window('orders', %s)", [window_s])
    after = dict(twins.conn.execute("select name, dedupe_window from gapless.topic").fetchall())
    assert after.pop("orders").total_seconds() == window_s
    assert after == {name: each for name, each in before.items() if name != "orders"}
    stored = once(twins)
    assert stored.returned[0][2] is (window_s > 50)
    assert stored.keys[0, "other", "a"] == mine[0, "other", "a"]


@pytest.mark.parametrize("window_s", [0, -1, None])
def test_no_window_of_nothing(twins: Twins, window_s: float | None) -> None:
    assert twins.refused("select gapless.set_dedupe_window('orders', %s)", [window_s]) == (
        "GL400",
        'topic "orders": the dedupe window must be more than nothing',
    )


@pytest.mark.parametrize(
    ("chars", "is_key"), [(0, False), (1, True), (500, True), (501, False), (None, False)]
)
def test_how_long_a_key_may_be(twins: Twins, chars: int | None, is_key: bool) -> None:
    params = {
        "key": None if chars is None else "é" * chars,
        "id": None,
        "digest": None,
        "in": None,
    }
    if is_key:
        assert len(call(twins, ONCE, params).ids) == 1
    else:
        why = f"dedupe_key must have 1 to 500 characters, not {chars or 0}"
        assert twins.refused(ONCE, params) == ("22023", why)


@pytest.mark.parametrize("slot", [0, 1, 2, 3])
def test_a_key_is_found_in_its_slot_alone(twins: Twins, slot: int) -> None:
    """Whatever is in the others, of the same topic and key."""
    put(twins, BESIDE, ELSEWHERE)
    put(twins, {(each, "orders", "b"): each for each in range(4)}, HERE)
    find = "select slot, topic_id, dedupe_key, message_id from gapless.dedupe_find(%s, %s, %s)"
    topic_id = twins.topic_ids["orders"]
    rows = twins.conn.execute(find, [slot, topic_id, "b"]).fetchall()
    assert rows == [(slot, topic_id, "b", 101 + slot)]
    assert twins.conn.execute(find, [slot, topic_id, "B"]).fetchall() == []
    assert twins.conn.execute(find, [slot, twins.topic_ids["other"], "b"]).fetchall() == []


@pytest.fixture(scope="module")
def others(module_dsn: str, shared: Twins) -> Iterator[list[Connection[Any]]]:
    with connect(module_dsn, role="one") as one, connect(module_dsn, role="two") as two:
        yield [one, two]


LEVELS = [("read committed", False), ("repeatable read", True), ("serializable", True)]


@pytest.mark.parametrize(("level", "is_held"), LEVELS)
def test_no_slot_turns_while_a_snapshot_publishes(
    others: list[Connection[Any]], level: str, is_held: bool
) -> None:
    one, two = others
    try:
        one.execute(f"begin isolation level {level}".encode())
        one.execute("select gapless.publish_once('orders', '1', 'held')")
        two.execute("begin")
        if is_held:
            with pytest.raises(psycopg.errors.LockNotAvailable):
                two.execute("select from gapless.dedupe_state for no key update nowait")
        else:
            two.execute("select from gapless.dedupe_state for no key update nowait")
    finally:
        two.execute("rollback")
        one.execute("rollback")


def test_who_was_faster_is_the_first(shared: Twins, others: list[Connection[Any]]) -> None:
    """It commits in the slot that takes new keys while this one is about to write there; the other slot says the same."""
    one, two = others
    got: list[Any] = []

    def publish() -> None:
        two.execute("begin")
        got.extend(
            two.execute(
                "select * from gapless.publish_once('orders', '1', 'both', digest => 'd')"
            ).fetchall()
        )

    try:
        one.execute("update gapless.dedupe_state set slot = 1, closing = 0")
        one.execute("begin")
        one.execute(PUT, [1, "orders", "both", HERE, 17, 0, b"d"])
        thread = Thread(target=publish)
        thread.start()
        while not shared.value(
            "select cardinality(pg_blocking_pids(%s)) > 0", two.info.backend_pid
        ):
            assert thread.is_alive()
        one.execute("commit")
        thread.join()
        rows = two.execute(
            "select slot, transaction_id::text, message_id, digest from gapless.dedupe where dedupe_key = 'both'"
        ).fetchall()
        assert [(str(row[0]), *row[1:]) for row in got] == [(HERE, 17, True, None)]
        assert sorted(rows) == [(0, HERE, 17, b"d"), (1, HERE, 17, b"d")]
        assert (
            two.execute(
                "select from gapless.outbox_message_t where xid = pg_current_xact_id()"
            ).fetchall()
            == []
        )
    finally:
        two.execute("rollback")
        one.execute("rollback")
        one.execute("delete from gapless.dedupe where dedupe_key = 'both'")
        one.execute("update gapless.dedupe_state set slot = 0, closing = null")
