"""Where the log of a queue ends, what a receipt stands for, and what is put aside: each of its own partition."""

import pytest

from support.twin_queues import (
    DONE,
    ELSEWHERE,
    HERE,
    PLACES,
    go_on,
    lengthen,
    letters,
    lose,
    note,
    put,
    spread,
)
from support.twins import Twins

TOKEN = "11111111-1111-4111-8111-111111111111"
END = "select * from gapless.queue_end(%s, 1, %s, %s)"
NOWHERE = "the receipt counts no more: another took the events, or they were answered for ({})"
Lost = tuple[set[int], int]  # segments, and where retention lets the log begin
NONE: Lost = (set(), 1)
# What is lost, where the floor is, which offset is asked for: what is said. The log ends at 12.
ENDS: dict[str, tuple[Lost, int, int, tuple[str, int | None]]] = {
    "the first": (NONE, 1, 1, ("there", 3)),
    "within the first segment": (NONE, 1, 3, ("there", 3)),
    "the first of a segment": (NONE, 1, 4, ("there", 6)),
    "within a segment": (NONE, 1, 5, ("there", 6)),
    "the last of a segment": (NONE, 1, 8, ("there", 8)),
    "the last": (NONE, 1, 12, ("there", 12)),
    "the end": (NONE, 1, 13, ("idle", None)),
    "the end, where the floor is": (NONE, 13, 13, ("idle", None)),
    "behind the end": (NONE, 1, 14, ("idle", None)),
    "the floor is behind the end": (NONE, 14, 14, ("beyond", 13)),
    "the floor is far behind the end": (NONE, 40, 40, ("beyond", 13)),
    "a segment is missing": (({4}, 1), 1, 4, ("hole", 6)),
    "its last": (({4}, 1), 1, 6, ("hole", 6)),
    "before what is missing": (({4}, 1), 1, 3, ("there", 3)),
    "behind what is missing": (({4}, 1), 1, 7, ("there", 8)),
    "two segments are missing": (({4, 7}, 1), 1, 5, ("hole", 8)),
    "two, apart": (({4, 9}, 1), 1, 5, ("hole", 6)),
    "the first segment is missing": (({1}, 1), 1, 1, ("hole", 3)),
    "the last segment is missing": (({11}, 1), 1, 11, ("idle", None)),
    "the last is missing, and the floor is behind it": (({11}, 1), 12, 12, ("beyond", 11)),
    "dropped": (({1}, 4), 1, 1, ("overrun", 3)),
    "the last that was dropped": (({1}, 4), 1, 3, ("overrun", 3)),
    "the first that was not dropped": (({1}, 4), 1, 4, ("there", 6)),
    "dropped in part, and a hole": (({1, 4}, 5), 1, 4, ("overrun", 4)),
    "the hole behind what was dropped": (({1, 4}, 5), 1, 5, ("hole", 6)),
}


@pytest.mark.few(5)
@pytest.mark.parametrize("name", ENDS)
def test_why_there_is_no_segment(twins: Twins, name: str) -> None:
    (segments, start), floor, c_offset, said = ENDS[name]
    lengthen(twins)
    go_on(twins)
    for n, place in enumerate(ELSEWHERE):
        put(twins, place, 100 if n % 2 else 1)
    lose(twins, segments=segments, start=start)
    put(twins, HERE, floor)
    params = [twins.topic_ids["orders"], twins.leases[HERE], c_offset]
    assert twins.conn.execute(END, params).fetchall() == [said]


FAR = (
    "insert into gapless.log_segment select (jsonb_populate_record(s, jsonb_build_object("
    "'base_offset', s.base_offset + n, 'last_offset', s.last_offset + n))).*"
    " from gapless.log_segment s, generate_series(2, 2600, 2) n"
    " where s.base_offset = 7 and s.topic_id = %s and s.partition_id = 1"
)


def test_what_is_missing_far_behind_what_is_done(twins: Twins) -> None:
    """It is looked for from the first open offset on, however many segments are before it."""
    topic_id = twins.topic_ids["orders"]
    twins.conn.execute(FAR, [topic_id])
    put(twins, HERE, 2201)
    lose(twins, segments={2301})
    ask = "select * from gapless.queue_missing(%s, 1, %s, 9)"
    found = twins.conn.execute(ask, [topic_id, twins.leases[HERE]]).fetchall()
    assert found == [("hole", 2301, 2302)]


READ = "select * from gapless.read_receipt(%s)"


@pytest.mark.parametrize("kind", ["R", "L"])
@pytest.mark.parametrize("place", PLACES)
def test_what_a_receipt_stands_for(twins: Twins, kind: str, place: tuple[str, str, int]) -> None:
    group, topic, partition = place
    lease = twins.leases[place]
    ((*found, token),) = twins.conn.execute(READ, [f"{kind}{lease}:3:12:{TOKEN}"]).fetchall()
    assert found == [kind, lease, group, twins.topic_ids[topic], partition, 3, 12]
    assert str(token) == TOKEN


def test_a_receipt_of_a_partition_that_is_gone(twins: Twins) -> None:
    """It is one, and counts no more; of another partition it counts."""
    gone = f"R{max(twins.leases.values()) + 1}:1:4:{TOKEN}"
    assert twins.refused(READ, [gone]) == ("GL003", NOWHERE.format(gone))
    twins.conn.execute("delete from gapless.lease where lease_no = %s", [twins.leases[HERE]])
    gone = f"R{twins.leases[HERE]}:1:4:{TOKEN}"
    assert twins.refused(READ, [gone]) == ("GL003", NOWHERE.format(gone))
    rest = f"R{twins.leases[ELSEWHERE[0]]}:1:4:{TOKEN}"
    assert len(twins.conn.execute(READ, [rest]).fetchall()) == 1


@pytest.mark.parametrize(
    "text",
    [None, "", "R1:1:4", f"R1:1:4:{TOKEN} ", f" R1:1:4:{TOKEN}", f"R:1:4:{TOKEN}", f"X1:1:4:{TOKEN}",
     f"R1:1::{TOKEN}", f"R1234567890:1:4:{TOKEN}", f"R1:1:{'9' * 19}:{TOKEN}", f"R1:{'9' * 19}:1:{TOKEN}",
     f"R1:1:4:{TOKEN.replace('-', '')}", "x" * 200],
)  # fmt: skip
def test_what_is_no_receipt(twins: Twins, text: str | None) -> None:
    """It is shown, as far as it is short."""
    shown = "null" if text is None else text[:100]
    said = ("GL400", f"this is no receipt of gapless.take(): {shown}")
    assert twins.refused(READ, [text]) == said


ASIDE = (
    "create temp table answer on commit drop as select gapless.aside_events('sender', %s, 1, %s, %s, 'waiting',"
    " 'bad', 'trace', 'ValueError', '22000', 4, '1 h', 'me', 12.5) as said"
)
COLUMNS = (
    "first_offset, last_offset, events, state, parks, attempts, reason, exception, exception_class, sqlstate,"
    " worker, duration_ms, next_attempt_ts - now() between '59 min' and '61 min'"
)


@pytest.mark.parametrize(("first", "last"), [(2, 5), (4, 4), (1, 8)])
def test_each_event_is_a_unit_of_its_own(twins: Twins, first: int, last: int) -> None:
    """Behind which nothing waits, and of the range itself nothing is noted."""
    for place in PLACES:
        note(twins, place, [(1, 8, DONE)])
    changed = twins.changes(ASIDE, [twins.topic_ids["orders"], first, last])
    events = range(first, last + 1)
    assert twins.value("select said from answer") == len(events)
    assert set(changed) == {
        f"{table} sender orders 1 {n}"
        for n in events
        for table in ("dead_letter", "dead_letter_event")
    }
    rest = ("waiting", False, 4, "bad", "trace", "ValueError", "22000", "me", 12.5, True)
    assert letters(twins, HERE, COLUMNS) == [(n, n, 1, *rest) for n in events]


PUT = (
    "select gapless.put_floor(%s, 'sender', %s, 1, c.ctid, gapless.floor_of(%s), 6) from gapless.consumer_offsets c"
    " where {}"
)
FLOORS = "select lease_no, version, next_offset, block, is_paused from gapless.queue_floor"


def test_a_floor_is_put_higher(twins: Twins) -> None:
    """What is noted below goes, with the floors before it; of others, and above, all stays."""
    spread(twins)
    lease = twins.leases[HERE]
    put(twins, HERE, 3)
    for place in PLACES:
        note(twins, place, [(3, 4, DONE), (5, 5, DONE), (6, 6, DONE), (7, 8, DONE)])
    twins.conn.execute("update gapless.queue_floor set version = version + 4")
    twins.conn.execute(
        "insert into gapless.queue_floor (lease_no, version, next_offset, block)"
        " select distinct on (lease_no) lease_no, version - 1, 1, 9 from gapless.queue_floor order by 1, 2"
    )
    before = twins.conn.execute(FLOORS).fetchall()
    statement = PUT.format(twins.here("sender"))
    changed = twins.changes(statement, [lease, twins.topic_ids["orders"], lease])
    assert changed.pop("consumer_offsets sender orders 1") == {"next_offset": (3, 6)}
    assert set(changed) == {f"queue_range {lease} {n}" for n in (3, 5)} | {
        f"queue_floor {lease} {n}" for n in (4, 5, 6)
    }
    after = twins.conn.execute(FLOORS).fetchall()
    assert set(before) - set(after) == {row for row in before if row[0] == lease}
    assert set(after) - set(before) == {(lease, 6, 6, 4, False)}
