"""take_next() and what it asks: which offsets of a queue are given out next, of this partition alone."""

from typing import Any

import pytest

from support.twins import Twins

HERE = ("sender", "orders", 1)
TAKE = (
    "select * from gapless.take_next('sender', %(topic_id)s, 1, %(lease)s, %(block)s, %(most)s, %(hint)s"
    ", %(holder)s, %(token)s, %(deadline)s)"
)
NOTE = (
    "insert into gapless.queue_range (lease_no, first_offset, last_offset, tries, deadline, token, holder)"
    " values (%s, %s, %s, 1, case %s when 'held' then timestamptz 'infinity' when 'due' then now() end,"
    " case when %s <> 'done' then gen_random_uuid() end, 'x')"
)
RANGES = (
    "select lease_no, first_offset, last_offset, tries, deadline::text, token::text, holder from gapless.queue_range"
    " order by 1, 2"
)
TOKEN = "00000000-0000-4000-8000-000000000001"
Notes = list[tuple[int, int, str]]
DONE, HELD, DUE = "done", "held", "due"
# What is noted, where the floor is, the hint, how many at most; then which offsets are taken.
TAKEN: dict[str, tuple[Notes, int, int | None, int, tuple[int, int]]] = {
    "the first block": ([], 1, None, 100, (1, 4)),
    "as many as may be": ([], 1, None, 2, (1, 2)),
    "one": ([], 1, None, 1, (1, 1)),
    "up to the end of a segment": ([], 1, None, 3, (1, 3)),
    "a hint": ([], 1, 5, 100, (5, 8)),
    "a hint into a block": ([], 1, 7, 100, (5, 8)),
    "a hint to a block's end": ([], 1, 8, 2, (5, 6)),
    "a hint to the end of the first": ([], 1, 4, 100, (1, 4)),
    "behind what is done": ([(1, 4, DONE)], 1, None, 4, (5, 8)),
    "behind what is in hand": ([(1, 4, HELD)], 1, None, 4, (5, 8)),
    "behind what is due again": ([(1, 4, DUE)], 1, None, 4, (5, 8)),
    "the rest of a block": ([(1, 2, DONE)], 1, None, 4, (3, 4)),
    "the rest of a block, by a hint": ([(1, 2, DONE)], 1, 1, 4, (3, 4)),
    "the last of a block": ([(1, 3, DONE)], 1, None, 4, (4, 4)),
    "the last of a block, by a hint": ([(5, 7, DONE)], 1, 5, 4, (8, 8)),
    "a gap, from the floor": ([(1, 2, DONE), (5, 6, DONE)], 1, None, 4, (3, 4)),
    "beyond all, by a hint": ([(1, 4, DONE), (5, 6, DONE)], 1, 1, 4, (7, 8)),
    "beyond the block": ([(1, 4, DONE)], 1, 1, 4, (5, 8)),
    "from the floor on": ([], 5, None, 4, (5, 8)),
    "from the floor in a block": ([], 3, None, 4, (3, 4)),
    "a hint below the floor": ([], 5, 1, 4, (5, 8)),
    "a hint into the floor's block": ([], 7, 5, 4, (7, 8)),
    "what was swept is not looked at": ([(1, 3, DONE)], 5, 5, 4, (5, 8)),
    "a range over a block's end": ([(1, 6, DONE)], 1, None, 4, (7, 8)),
    "a range over a block's end, by a hint": ([(1, 6, DONE)], 1, 5, 4, (7, 8)),
    "three ranges": ([(1, 4, DONE), (5, 5, HELD), (6, 7, DUE)], 1, None, 4, (8, 8)),
}
# The same, and what is said: an outcome and the offsets that it is about.
REFUSED: dict[str, tuple[Notes, int, int | None, tuple[str, int | None, int | None]]] = {
    "all is done": ([(1, 8, DONE)], 1, None, ("idle", None, None)),
    "all is done, by a hint": ([(1, 8, DONE)], 1, 8, ("idle", None, None)),
    "a hint to the end": ([(5, 8, DONE)], 1, 9, ("idle", None, None)),
    "the floor is at the end": ([], 9, None, ("idle", None, None)),
    "the floor is at the end, by a hint": ([], 9, 9, ("idle", None, None)),
    "all is in hand": ([(1, 8, HELD)], 1, None, ("idle", None, None)),
    "some is due": ([(1, 4, DUE), (5, 8, HELD)], 1, None, ("noted", None, None)),
    "the last is due": ([(1, 7, DONE), (8, 8, DUE)], 1, None, ("noted", None, None)),
    "what was due is swept": ([(1, 4, DUE)], 9, None, ("idle", None, None)),
    "beyond the end, by a hint": ([], 20, 20, ("beyond", 20, 9)),
}


@pytest.fixture
def queue(twins: Twins) -> Twins:
    """Elsewhere all is in hand but the first and the last event, and one is due."""
    for place, lease in twins.leases.items():
        if place != HERE and place[0] in {"sender", "auditor"}:
            for first, last, state in ((2, 4, DUE), (5, 7, HELD)):
                note(twins, lease, first, last, state)
    return twins


def note(twins: Twins, lease: int, first: int, last: int, state: str) -> None:
    twins.conn.execute(NOTE, [lease, first, last, state, state])


def play(twins: Twins, notes: Notes, floor: int) -> None:
    lease = twins.leases[HERE]
    for each in notes:
        note(twins, lease, *each)
    twins.conn.execute(
        "update gapless.queue_floor set next_offset = %s where lease_no = %s", [floor, lease]
    )


def take(
    twins: Twins, hint: int | None = None, most: int = 4, block: int = 4, **more: Any
) -> list[Any]:
    params = {
        "topic_id": twins.topic_ids["orders"], "lease": twins.leases[HERE], "block": block, "most": most,
        "hint": hint, "holder": None, "token": None, "deadline": None,
    }  # fmt: skip
    return twins.conn.execute(TAKE, params | more).fetchall()


def log(twins: Twins) -> dict[int, int]:
    """The id of each offset."""
    rows = twins.conn.execute("select c_offset, message_id from gapless.read('orders', 1, 1, 9)")
    return dict(rows.fetchall())


def assert_taken(
    twins: Twins, rows: list[Any], first: int, last: int, bases: tuple[int, ...]
) -> None:
    """Of each segment a row, and a row of each event."""
    ids = log(twins)
    pieces = [row for row in rows if row[0] is not None]
    assert [row[:3] for row in pieces] == [("claimed", first, last)] * len(pieces)
    begins = [first, *(base for base in bases if first < base <= last)]
    ends = [*(base - 1 for base in begins[1:]), last]
    given = []
    for number, (begin, end, row) in enumerate(zip(begins, ends, pieces, strict=True)):
        assert row[5] == begin
        # The first row has the ids of all.
        given.append(row[6])
        until = last if number == 0 and len(row[6]) > end - begin + 1 else end
        assert row[6] == [ids[n] for n in range(begin, until + 1)]
        assert row[7] == "1" * len(row[6])
        assert row[8] == twins.value("select gapless.timeline()")
    assert sorted(row[9] for row in rows if row[0] is None) == [
        ids[n] for n in range(first, last + 1)
    ]


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_taken(queue: Twins, name: str) -> None:
    notes, floor, hint, most, (first, last) = TAKEN[name]
    play(queue, notes, floor)
    before = queue.conn.execute(RANGES).fetchall()
    rows = take(queue, hint, most)
    assert_taken(queue, rows, first, last, (1, 4, 7))
    after = queue.conn.execute(RANGES).fetchall()
    assert set(before) <= set(after)
    assert set(after) - set(before) == {(queue.leases[HERE], first, last, 0, None, None, None)}
    assert rows[0][3] == queue.value("select pg_current_xact_id()::text")
    assert queue.value("select current_setting('gapless.chain')") == "open"


@pytest.mark.parametrize("name", REFUSED)
def test_when_nothing_is_taken(queue: Twins, name: str) -> None:
    notes, floor, hint, said = REFUSED[name]
    play(queue, notes, floor)
    before = queue.conn.execute(RANGES).fetchall()
    assert [row[:3] for row in take(queue, hint)] == [said]
    assert queue.conn.execute(RANGES).fetchall() == before


def test_a_reservation(queue: Twins) -> None:
    """Its token, its holder and its end are noted; it is no claim."""
    before = queue.conn.execute(RANGES).fetchall()
    queue.conn.execute("select set_config('gapless.chain', '', true)")
    rows = take(queue, 1, 2, holder="me", token=TOKEN, deadline="2199-01-01 00:00+00")
    (new,) = set(queue.conn.execute(RANGES).fetchall()) - set(before)
    assert (*new[:4], new[4][:4], *new[5:]) == (queue.leases[HERE], 1, 2, 1, "2199", TOKEN, "me")
    assert rows[0][3] is None
    assert queue.value("select current_setting('gapless.chain')") == ""


@pytest.mark.parametrize("hint", [None, 1])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("is_paused = true", "idle"),
        ("block = 8", "moved"),
        ("is_paused = true, block = 8", "moved"),
    ],
)
def test_a_queue_that_is_not_as_it_was(
    queue: Twins, change: str, said: str, hint: int | None
) -> None:
    lease = queue.leases[HERE]
    queue.conn.execute(
        "insert into gapless.queue_floor (lease_no, version, next_offset, block) values (%s, 100, 1, 4)",
        [lease],
    )
    queue.conn.execute(f"update gapless.queue_floor set {change} where version = 100")  # type: ignore[arg-type]
    assert [row[:3] for row in take(queue, hint)] == [(said, None, None)]


@pytest.mark.parametrize(
    ("lost", "floor", "said"),
    [
        (4, 4, ("hole", 4, 6)), (1, 1, ("overrun", 1, 3)), (1, 2, ("overrun", 2, 3)), (4, 5, ("hole", 5, 6)),
        (7, 7, ("idle", None, None)), (1, 4, ("claimed", 4, 4)), (4, 3, ("claimed", 3, 3)), (7, 5, ("claimed", 5, 6)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("hint", [False, True])
def test_segments_that_are_missing(
    queue: Twins, lost: int, floor: int, said: tuple[str, int | None, int | None], hint: bool
) -> None:
    play(queue, [], floor)
    here = f"topic_id = {queue.topic_ids['orders']} and partition_id = 1"
    queue.conn.execute(f"delete from gapless.log_segment where {here} and base_offset = {lost}")  # type: ignore[arg-type]
    queue.conn.execute(
        f"delete from gapless.log_segment where not ({here}) and base_offset <> {lost}"
    )  # type: ignore[arg-type]
    queue.conn.execute(
        "insert into gapless.log_start (topic_id, partition_id, first_offset, newest_ts)"
        " select topic_id, p, case when topic_id = %s and p = 1 then 4 else 3 end, now()"
        " from gapless.topic, generate_series(0, 2) p where %s or not (topic_id = %s and p = 1)",
        [queue.topic_ids["orders"], lost == 1, queue.topic_ids["orders"]],
    )
    assert take(queue, floor if hint else None)[0][:3] == said


@pytest.mark.parametrize(
    ("lost", "most", "last"), [(4, 8, 3), (None, 8, 8), (7, 8, 6), (None, 5, 5), (None, 7, 7)]
)
def test_a_block_of_several_segments(queue: Twins, lost: int | None, most: int, last: int) -> None:
    """Up to the first that is missing."""
    queue.conn.execute("update gapless.queue_floor set block = 16")
    here = f"topic_id = {queue.topic_ids['orders']} and partition_id = 1"
    ids = log(queue)
    if lost:
        queue.conn.execute(f"delete from gapless.log_segment where {here} and base_offset = {lost}")  # type: ignore[arg-type]
    rows = take(queue, None, most, block=16)
    assert {row[:3] for row in rows if row[0]} == {("claimed", 1, last)}
    assert [row[5] for row in rows if row[0]] == [base for base in (1, 4, 7) if base <= last]
    assert sorted(row[9] for row in rows if not row[0]) == [ids[n] for n in range(1, last + 1)]


@pytest.mark.parametrize(
    ("first", "state", "floor", "noted"),
    [
        (2, DUE, 1, True), (2, DUE, 2, True), (2, DUE, 3, False), (2, HELD, 1, False), (2, DONE, 1, False),
    ],
)  # fmt: skip
def test_what_is_noted(queue: Twins, first: int, state: str, floor: int, noted: bool) -> None:
    ask = "select gapless.has_noted('sender', %s, 1, %s)"
    params = [queue.topic_ids["orders"], queue.leases[HERE]]
    assert queue.value(ask, *params) is False
    play(queue, [(first, 4, state)], floor)
    assert queue.value(ask, *params) is noted
    queue.conn.execute("select gapless.pause('sender', 'orders')")
    assert queue.value(ask, *params) is False


@pytest.mark.parametrize(
    ("state", "when", "noted"),
    [("waiting", "now()", True), ("waiting", "'infinity'", False), ("dead", "null", False)],
)
def test_letters_that_are_noted(twins: Twins, state: str, when: str, noted: bool) -> None:
    """Those of this partition, when they are due."""
    ask = "select gapless.has_noted('sender', %s, 1, %s)"
    params = [twins.topic_ids["orders"], twins.leases[HERE]]
    for place in (("sender", "other", 1), ("sender", "orders", 2), ("auditor", "orders", 1)):
        set_aside(twins, place, "waiting")
    assert twins.value(ask, *params) is False
    set_aside(twins, HERE, state)
    where = twins.here("sender")
    twins.conn.execute(f"update gapless.dead_letter set next_attempt_ts = {when} where {where}")  # type: ignore[arg-type]
    assert twins.value(ask, *params) is noted


def set_aside(twins: Twins, place: tuple[str, str, int], state: str) -> None:
    group, topic, partition = place
    twins.conn.execute(
        "select gapless.set_aside(%s, %s, %s, 1, array(select message_id from gapless.read(%s, %s, 1, 1)),"
        " %s, 'why', 'why', _retry_after => '-1 s')",
        [group, twins.topic_ids[topic], partition, topic, partition, state],
    )
