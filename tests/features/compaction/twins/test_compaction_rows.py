"""compact_partition(): the next events of one partition, folded into what is kept of their keys, and nothing else."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.compacted import is_here, keep, kept, logged, write
from support.twins import Twins

HOST = "0ad2e5a4-22a3-4b5c-8e3e-3c3b7e2f1a10"
TO_MAIL = '{"gapless-to-group": "mail"}'
TAKE = "select gapless.compact_partition({topic}, {partition}, {most})"
# Of each partition: key, payload, host and headers of an event; those without a payload are tombstones.
EVENTS: dict[int, tuple[str | None, str | None, str | None, str | None]] = {
    1: ("a", "1", None, None),
    2: ("b", "2", HOST, '{"other": "mail"}'),
    3: ("a", "3", None, None),
    4: (None, "4", None, None),
    5: ("b", None, None, None),
    6: ("c", "6", None, TO_MAIL),
    7: (None, "7", HOST, None),
    8: ("d", "8", None, None),
}
PLACE = "compaction orders 1"


@pytest.fixture(scope="module")
def settled(shared: Twins) -> Twins:
    """Elsewhere half of it was taken in; the other topic has the same keys."""
    conn = shared.conn
    for at, (key, payload, host, headers) in EVENTS.items():
        write(shared, at, key, payload, "type", host_id=host, headers=headers)
    conn.execute("update gapless.topic set compacted = true")
    conn.execute("update gapless.log_segment set timeline = base_offset")
    conn.execute(
        "insert into gapless.compaction (topic_id, partition_id, next_offset, keys, keyless, missing, moved_ts)"
        " select t.topic_id, p, case when t.name = 'orders' and p = 1 then 1 else 4 end, 10, 20, 30, '2001-01-01'"
        " from gapless.topic t, unnest('{2,0,1}'::int[]) p order by t.name <> 'other'"
    )
    keep(shared, f"not ({is_here(shared)})", 2, 3)
    return shared


@pytest.fixture
def twins(settled: Twins) -> Iterator[Twins]:
    with settled.undone():
        yield settled


def fold(upto: int, *, direct: bool = False, lost: int = 0) -> list[int]:
    """At which offsets the newest events of the keys are, of those up to there."""
    found: dict[str, int] = {}
    for at, (key, payload, host, headers) in EVENTS.items():
        if at > upto or at == lost or (key or host) is None or (direct and headers == TO_MAIL):
            continue
        found.pop(key or host or "", None)
        if payload is not None:
            found[key or host or ""] = at
    return sorted(found.values())


def start(twins: Twins, at: int, **how: Any) -> None:
    """All before that offset was taken in."""
    twins.conn.execute(
        f"update gapless.compaction set next_offset = {at} where {is_here(twins)}".encode()
    )
    keep(twins, is_here(twins), *fold(at - 1, **how))


def taken(twins: Twins, most: int, topic: str = "orders") -> tuple[int, dict[str, Any]]:
    """Return how many were taken in, and what that changed of all but the keys of this partition."""
    before = twins.conn.execute("select l::text from gapless.latest l").fetchall()
    call = TAKE.format(topic=twins.topic_ids[topic], partition=1, most=most)
    changed = twins.changes(f"create temp table answer on commit drop as {call} as n")
    count = twins.value("select n from pg_temp.answer")
    twins.conn.execute("drop table pg_temp.answer")
    mine = {name for name in changed if name.startswith("latest ")}
    elsewhere = f"select l::text from gapless.latest l where not ({is_here(twins)})"
    assert {name.split()[1] for name in mine} <= {"orders"}
    assert set(twins.conn.execute(elsewhere.encode())) <= set(before)
    return count, {name: row for name, row in changed.items() if name not in mine}


def counts(**changed: int) -> dict[str, tuple[int, int]]:
    """What changed of 10 keys, 20 keyless, 30 missing."""
    before = {"keys": 10, "keyless": 20, "missing": 30}
    return {
        name: (before[name], before[name] + more) for name, more in changed.items() if more != 0
    }


# Where the partition is, how many are wanted, up to where they are taken in.
STEPS = [
    (1, 100, 8), (1, 8, 8), (1, 1, 1), (1, 2, 2), (1, 3, 3), (1, 4, 4), (2, 2, 3), (3, 1, 3), (3, 2, 4), (3, 100, 8),
    (4, 1, 4), (5, 1, 5), (4, 3, 6), (6, 1, 6), (7, 1, 7), (8, 1, 8), (8, 9, 8),
]  # fmt: skip


@pytest.mark.parametrize(("at", "most", "upto"), STEPS)
@pytest.mark.parametrize("direct", ["nobody", "other", "orders"])
def test_what_is_kept_is_the_fold_of_the_log(
    twins: Twins, at: int, most: int, upto: int, direct: str
) -> None:
    """What is for one group is left out where a topic takes such messages; elsewhere that is a header."""
    is_direct = direct == "orders"
    twins.conn.execute("update gapless.topic set direct = (name = %s)", [direct])
    start(twins, at, direct=is_direct)
    more = len(fold(upto, direct=is_direct)) - len(fold(at - 1, direct=is_direct))
    passed = [4, *([6] if is_direct else [])]
    count, changed = taken(twins, most)
    assert count == upto - at + 1
    keyless = sum(at <= each <= upto for each in passed)
    place = {"next_offset": (at, upto + 1), **counts(keys=more, keyless=keyless)}
    assert changed == {PLACE: place}
    assert kept(twins) == logged(twins, 1, *fold(upto, direct=is_direct))


@pytest.mark.parametrize("payload", [None, "null", " null\n", "\t\r null "])
def test_json_null_is_a_tombstone(twins: Twins, payload: str | None) -> None:
    write(twins, 5, "b", payload)
    start(twins, 4)
    assert taken(twins, 2)[1] == {PLACE: {"next_offset": (4, 6), **counts(keys=-1, keyless=1)}}
    assert kept(twins) == logged(twins, 1, 3)


@pytest.mark.parametrize("payload", ['"null"', "0", "[null]", "false"])
def test_nothing_else_is_one(twins: Twins, payload: str) -> None:
    write(twins, 5, "b", payload)
    start(twins, 4)
    assert taken(twins, 2)[1] == {PLACE: {"next_offset": (4, 6), **counts(keyless=1)}}
    assert kept(twins) == logged(twins, 1, 3, 5)


@pytest.mark.parametrize("lost", [1, 3, 4, 8])
def test_what_is_deleted_from_the_log_is_missing(twins: Twins, lost: int) -> None:
    twins.lose(lost)
    expected = fold(8, lost=lost)
    count, changed = taken(twins, 100)
    more = counts(keys=len(expected), keyless=int(lost != 4), missing=1)
    assert (count, changed) == (8, {PLACE: {"next_offset": (1, 9), **more}})
    assert kept(twins) == logged(twins, 1, *expected)


@pytest.mark.parametrize(
    "change",
    [
        "delete from gapless.compaction where {here}",
        "update gapless.topic set compacted = (name = 'other')",
        "update gapless.compaction set next_offset = 9 where {here}",
        "delete from gapless.log_segment where {here}",
    ],
)
def test_when_there_is_nothing_to_take_in(twins: Twins, change: str) -> None:
    twins.conn.execute(change.format(here=is_here(twins)).encode())
    assert taken(twins, 100) == (0, {})
    assert kept(twins) == []


LAYOUTS = (
    "insert into gapless.layout (topic_id, layout, partitions) select t.topic_id, n, 3 from gapless.topic t,"
    " generate_series(0, 2) n on conflict do nothing"
)
BARRIER = (
    "insert into gapless.barrier select topic_id, {}, {}, {} from gapless.topic where name = '{}'"
)
# What ends an older layout: its layout, partition, last offset, topic; the changed place of its partition; is it met?
BARRIERS: list[tuple[int, int, int, str, str, bool]] = [
    (0, 2, 5, "orders", "next_offset = 5", False),
    (0, 2, 5, "orders", "next_offset = 6", True),
    (0, 2, 5, "orders", "next_offset = 1", False),
    (0, 2, 5, "other", "next_offset = 1", True),
    (1, 2, 5, "orders", "next_offset = 1", True),
    (2, 2, 5, "orders", "next_offset = 1", True),
    (0, 1, 3, "orders", "next_offset = 1", True),
    (0, 1, 4, "orders", "next_offset = 1", False),
    (0, 7, 1, "orders", "next_offset = 9", False),
]  # fmt: skip


@pytest.mark.parametrize("case", BARRIERS)
def test_a_layout_is_taken_in_behind_all_before_it(
    twins: Twins, case: tuple[int, int, int, str, str, bool]
) -> None:
    """In every partition, also one that has no place yet; up to where it ends itself."""
    layout, partition, last, topic, place, is_met = case
    conn = twins.conn
    conn.execute(LAYOUTS)
    conn.execute(
        f"update gapless.log_segment set layout = base_offset / 3 where {is_here(twins)}".encode()
    )
    conn.execute(BARRIER.format(layout, partition, last, topic).encode())
    conn.execute(
        f"update gapless.compaction set {place} where topic_id = %s and partition_id = %s".encode(),
        [twins.topic_ids[topic], partition],
    )
    start(twins, 4)
    count, changed = taken(twins, 100)
    assert count == (3 if is_met else 0)
    assert changed == ({PLACE: {"next_offset": (4, 7), **counts(keyless=1)}} if is_met else {})
    assert kept(twins) == logged(twins, 1, *fold(6 if is_met else 3))


def test_a_layout_ends_where_the_next_begins(twins: Twins) -> None:
    """What was placed by another one is left to the next step."""
    twins.conn.execute(
        f"update gapless.log_segment set layout = 1 where base_offset = 7 and {is_here(twins)}".encode()
    )
    assert taken(twins, 100)[0] == 6
    assert taken(twins, 100)[0] == 2
    assert kept(twins) == logged(twins, 1, *fold(8))
