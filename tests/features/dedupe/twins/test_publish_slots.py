"""The slots of dedupe keys: which step is due when, and what each step changes in which row.

The windows: 1000 s of orders, 10000 s of other. All four slots are there; of each, ages are in seconds.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.twins import Twins

STATE = (
    "select slot, closing, closes_at::text::bigint, closed,"
    " round(extract(epoch from clock_timestamp() - since_ts))::int from gapless.dedupe_state"
)
SLOTS = "select slot, round(extract(epoch from clock_timestamp() - closed_ts))::int from gapless.dedupe_slot order by 1"
KEYS = "select slot, topic_id, dedupe_key from gapless.dedupe order by 1, 2, 3"
PUT = (
    "insert into gapless.dedupe (slot, topic_id, dedupe_key, transaction_id, published_ts)"
    " values (%s, gapless.topic_id(%s), 'a', gen_random_uuid(), now())"
)
SET = (
    "update gapless.dedupe_state set slot = %s, closing = %s, closed = %s,"
    " since_ts = clock_timestamp() - make_interval(secs => %s), closes_at = (case %s"
    " when 'oldest' then pg_snapshot_xmin(pg_current_snapshot()) when 'next' then pg_snapshot_xmax(pg_current_snapshot())"
    " end::text::bigint + %s)::text::xid8"
)
BOTH = ("orders", "other")


class Slots(NamedTuple):
    """Where keys go, and to which slot they went; when that closes, after the oldest xid; what is looked at.

    since: for how long keys have gone there. ages: since when a slot is closed. keys: of which topics it has some.
    """

    slot: int = 1
    closing: int | None = None
    closes_at: tuple[str, int] | None = None
    closed: tuple[int, ...] = ()
    since: int = 0
    ages: dict[int, int] = {}  # noqa: RUF012 - nobody changes it
    keys: dict[int, tuple[str, ...]] = {}  # noqa: RUF012

    def put(self, twins: Twins) -> None:
        closes_at = self.closes_at or (None, 0)
        values = [self.slot, self.closing, list(self.closed), self.since, *closes_at]
        twins.conn.execute(
            "update gapless.topic set dedupe_window = case name when 'orders' then interval '1000 s'"
            " else interval '10000 s' end"
        )
        twins.conn.execute(SET, values)
        for slot, age in self.ages.items():
            twins.conn.execute(
                "update gapless.dedupe_slot set closed_ts = clock_timestamp() - make_interval(secs => %s) where slot = %s",
                [age, slot],
            )
        for slot, topics in self.keys.items():
            for topic in topics:
                twins.conn.execute(PUT, [slot, topic])


EVERY: dict[int, tuple[str, ...]] = {0: BOTH, 1: BOTH, 2: BOTH, 3: BOTH}
SHORT: dict[int, tuple[str, ...]] = dict.fromkeys(range(4), ("orders",))
Steps = list[tuple[str, int]]
# When is what due? An xid counts from the oldest one that is in progress, or from the next that anybody gets.
DUE: dict[str, tuple[Slots, Steps]] = {
    "it is new": (Slots(), []),
    "no key is there": (Slots(since=10**8), []),
    "half of the window is over": (Slots(since=501, keys=SHORT), [("turn", 0)]),
    "half of it is not over": (Slots(since=499, keys=SHORT), []),
    "half of the longest": (Slots(since=5001, keys={1: BOTH}), [("turn", 0)]),
    "not of the longest": (Slots(since=4999, keys={1: BOTH}), []),
    "what others have does not count": (Slots(since=501, keys=EVERY | {1: ("orders",)}), [("turn", 0)]),
    "to the first that is free": (Slots(slot=0, since=501, keys=SHORT), [("turn", 1)]),
    "to the next": (Slots(slot=0, since=501, closed=(1,), ages={1: 1}, keys=SHORT), [("turn", 2)]),
    "to the last": (Slots(slot=0, since=501, closed=(1, 2), ages={1: 1, 2: 1}, keys=SHORT), [("turn", 3)]),
    "to none": (Slots(slot=0, since=501, closed=(1, 2, 3), ages={1: 1, 2: 1, 3: 1}, keys=SHORT), []),
    "not while one closes": (Slots(closing=0, closes_at=("oldest", 1), since=501, keys=SHORT), []),
    "one that may be there is not": (Slots(closing=0, closes_at=("next", 0), keys=SHORT), []),
    "a look at who is there": (Slots(closing=0, since=501, keys=SHORT), [("watch", 0)]),
    "all who were there are gone": (Slots(closing=0, closes_at=("oldest", 0), keys=SHORT), [("close", 0)]),
    "nothing closes": (Slots(closes_at=("oldest", 0), keys=SHORT), []),
    "long ago": (Slots(closing=2, closes_at=("oldest", -1), keys=SHORT), [("close", 2)]),
    "of another cluster": (Slots(closing=0, closes_at=("next", 1), keys=SHORT), [("close", 0)]),
    "its last key is too old": (Slots(closed=(2,), ages={2: 1001}, keys=SHORT), [("leave", 2)]),
    "not yet": (Slots(closed=(2,), ages={2: 999}, keys=SHORT), []),
    "not of the longest window": (Slots(closed=(2,), ages={2: 9999}, keys=SHORT | {2: BOTH}), []),
    "also of the longest window": (Slots(closed=(2,), ages={2: 10001}, keys=EVERY), [("leave", 2)]),
    "it had no key": (Slots(closed=(2,), ages={2: 1}, keys={0: BOTH, 1: BOTH, 3: BOTH}), [("leave", 2)]),
    "one of two": (Slots(closed=(0, 2), ages={0: 999, 2: 1001}, keys=SHORT), [("leave", 2)]),
    "two": (Slots(closed=(2, 0), ages={0: 1001, 2: 1002}, keys=SHORT), [("leave", 0), ("leave", 2)]),
    "nobody looks at it": (Slots(ages={3: 1}, keys=SHORT), [("empty", 3)]),
    "nobody looks at two": (Slots(closed=(0,), ages={0: 1, 3: 5, 2: 7}, keys=SHORT), [("empty", 2), ("empty", 3)]),
    "all at once": (
        Slots(closing=0, closed=(2,), ages={2: 1001, 3: 5000}, since=501, keys=SHORT),
        [("watch", 0), ("leave", 2), ("empty", 3)],
    ),
    "all but a look": (
        Slots(closing=0, closes_at=("oldest", 0), closed=(2,), ages={2: 1001, 3: 5000}, since=501, keys=SHORT),
        [("close", 0), ("leave", 2), ("empty", 3)],
    ),
    "all but that it closes": (
        Slots(closed=(2,), ages={2: 1001, 3: 5000}, since=501, keys=SHORT), [("leave", 2), ("turn", 0), ("empty", 3)],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def others(module_dsn: str, shared: Twins) -> Iterator[list[Connection[Any]]]:
    with connect(module_dsn, role="one") as one, connect(module_dsn, role="two") as two:
        yield [one, two]


@pytest.fixture
def slots(twins: Twins, others: list[Connection[Any]]) -> Twins:
    """Others began after this transaction, and are over."""
    twins.conn.execute("select pg_current_xact_id()")
    for _ in range(3):
        others[0].execute("select pg_current_xact_id()")
    return twins


@pytest.mark.parametrize("name", DUE)
def test_what_is_due(slots: Twins, name: str) -> None:
    wanted, steps = DUE[name]
    wanted.put(slots)
    assert slots.conn.execute("select step, slot from gapless.dedupe_due()").fetchall() == steps


def seen(twins: Twins) -> dict[str, Any]:
    (state,) = twins.conn.execute(STATE).fetchall()
    names = ("slot", "closing", "closes_at", "closed", "since")
    ages = dict(twins.conn.execute(SLOTS).fetchall())
    keys = twins.conn.execute(KEYS).fetchall()
    return dict(zip(names, state, strict=True)) | {"ages": ages, "keys": keys}


@pytest.mark.few(10)
@pytest.mark.parametrize("name", DUE)
def test_one_step_is_taken_and_nothing_else_changes(slots: Twins, name: str) -> None:
    wanted, steps = DUE[name]
    wanted.put(slots)
    before = seen(slots)
    xmax = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
    first = slots.value(xmax)
    done = slots.value("select gapless.turn_dedupe_slots()")
    after, last = seen(slots), slots.value(xmax)
    assert done is bool(steps)
    step, slot = steps[0] if steps else ("", -1)
    if step == "watch":
        assert first <= after["closes_at"] <= last
        before["closes_at"] = after["closes_at"]
    changes: dict[str, dict[str, Any]] = {
        "": {}, "watch": {},
        "turn": {"slot": slot, "closing": wanted.slot, "closes_at": None, "since": 0},
        "close": {
            "closing": None, "closes_at": None, "closed": [*wanted.closed, slot], "ages": before["ages"] | {slot: 0},
        },
        "leave": {"closed": [each for each in wanted.closed if each != slot]},
        "empty": {
            "ages": before["ages"] | {slot: None}, "keys": [key for key in before["keys"] if key[0] != slot],
        },
    }  # fmt: skip
    assert after == before | changes[step]


@pytest.mark.parametrize(
    ("keys", "longest"),
    [
        ({}, None), ({2: ("orders",)}, 1000), ({2: ("other",)}, 10000), ({2: BOTH}, 10000), ({1: BOTH, 3: BOTH}, None),
        ({0: BOTH, 1: BOTH, 2: ("orders",), 3: BOTH}, 1000),
    ],
)  # fmt: skip
def test_the_longest_window_of_what_is_in_a_slot(
    twins: Twins, keys: dict[int, tuple[str, ...]], longest: int | None
) -> None:
    Slots(keys=keys).put(twins)
    assert twins.value("select gapless.dedupe_longest(2)") == longest


def test_a_slot_goes_round(slots: Twins) -> None:
    """From the turn to where it is free again, however often somebody asks in between."""
    Slots(since=600, keys=SHORT).put(slots)
    slots.conn.execute("delete from gapless.dedupe where slot <> 1")
    turn = "select gapless.turn_dedupe_slots()"
    assert [slots.value(turn) for _ in range(2)] == [True, True]
    # Who is in progress is this transaction itself.
    assert slots.value(turn) is False
    slots.conn.execute("update gapless.dedupe_state set closes_at = '3'")
    assert [slots.value(turn) for _ in range(2)] == [True, False]
    slots.conn.execute(
        "update gapless.dedupe_slot set closed_ts = now() - interval '1001 s' where slot = 1"
    )
    assert [slots.value(turn) for _ in range(3)] == [True, True, False]
    after = seen(slots)
    assert (after["slot"], after["closing"], after["closed"], after["keys"]) == (0, None, [], [])
    assert after["ages"] == dict.fromkeys(range(4))


@pytest.mark.parametrize("is_due", [True, False])
def test_one_at_a_time_takes_a_step(others: list[Connection[Any]], is_due: bool) -> None:
    """Who has nothing to do locks nothing."""
    one, two = others
    try:
        one.execute("begin")
        if is_due:
            one.execute("update gapless.dedupe_slot set closed_ts = now() where slot = 3")
        assert one.execute("select gapless.turn_dedupe_slots()").fetchone() == (is_due,)
        two.execute("begin")
        lock = "select from gapless.dedupe_state for no key update nowait"
        if is_due:
            with pytest.raises(psycopg.errors.LockNotAvailable):
                two.execute(lock)
        else:
            two.execute(lock)
    finally:
        two.execute("rollback")
        one.execute("rollback")


def test_a_slot_that_is_in_use_is_emptied_later(others: list[Connection[Any]]) -> None:
    one, two = others
    try:
        two.execute("begin")
        two.execute("select gapless.dedupe_find(3, 1, 'a')")
        one.execute("begin")
        one.execute("update gapless.dedupe_slot set closed_ts = now() where slot = 3")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            one.execute("select gapless.turn_dedupe_slots()")
    finally:
        two.execute("rollback")
        one.execute("rollback")


def test_no_step_is_taken_in_a_snapshot(others: list[Connection[Any]]) -> None:
    one, _ = others
    for level in ("repeatable read", "serializable"):
        with pytest.raises(psycopg.Error, match=r"turn_dedupe_slots\(\) needs READ COMMITTED"):
            with one.transaction(force_rollback=True):
                one.execute(f"set transaction isolation level {level}".encode())
                one.execute("select gapless.turn_dedupe_slots()")
