"""take(): what a client in any language gets of a queue group, and what a call leaves for others."""

from typing import Any

import pytest

from support.twin_queues import (
    DONE,
    DUE,
    ELSEWHERE,
    HELD,
    HERE,
    PLACES,
    Notes,
    block_lock,
    letter,
    letters,
    locks,
    note,
    noted,
    put,
)
from support.twins import Twins

TAKE = "select * from gapless.take(%s, %s, %s, %s)"
READ = (
    "select c_offset, key, event_type, payload, headers, host_id, user_id, transaction_id, created_ts"
    " from gapless.read('orders', 1, 1, 8)"
)
BESIDE = [("sender", "orders", 0), ("sender", "orders", 2)]


@pytest.fixture
def only(twins: Twins) -> Twins:
    """The other partitions of the topic have nothing to give; everywhere else something is due."""
    for place in ELSEWHERE:
        note(twins, place, [(1, 9, HELD)] if place in BESIDE else [(1, 2, DUE)])
    return twins


def take(twins: Twins, most: int = 4, topic: str = "orders", group: str = "sender") -> list[Any]:
    return twins.conn.execute(TAKE, [group, topic, most, "60 s"]).fetchall()


def seed(twins: Twins, first: tuple[float, float], second: tuple[float, float]) -> None:
    """Let the session's next two random() be in there."""
    for n in range(20000):
        twins.conn.execute("select setseed(%s)", [n / 20000])
        one, two = (
            row[0] for row in twins.conn.execute("select random() from generate_series(1, 2)")
        )
        if first[0] <= one < first[1] and second[0] <= two < second[1]:
            twins.conn.execute("select setseed(%s)", [n / 20000])
            return
    raise AssertionError


def test_what_a_client_gets(only: Twins) -> None:
    """All that is known of an event, the transaction it was published in included."""
    known = "33333333-3333-4333-8333-333333333333"
    only.conn.execute(
        "update gapless.outbox_message_t o set transaction_id = %s, headers = '{\"h\": 1}', host_id = 'h',"
        " user_id = 'u'"
        " from gapless.log_segment s where s.topic_id = %s and s.partition_id = 1 and o.id = s.message_ids[2]",
        [known, only.topic_ids["orders"]],
    )
    events = only.conn.execute(READ).fetchall()
    rows = take(only)
    lease = only.leases[HERE]
    me = only.value("select session_user::text")
    assert noted(only) == [(1, 4, HELD, 1, me)]
    token = only.value("select token::text from gapless.queue_range where lease_no = %s", lease)
    assert rows == [(f"R{lease}:1:4:{token}", 1, n, 1, *event) for n, *event in events[:4]]
    assert {str(rows[1][10]), str(rows[0][10])} > {known}
    assert rows[0][10] != rows[3][10]


def test_an_attempt_is_each_time_it_was_given_out(only: Twins) -> None:
    """And each time that it failed."""
    note(only, HERE, [(1, 8, DUE)], tries=2)
    assert [(row[2], row[3]) for row in take(only)] == [(1, 3)]
    letter(only, HERE, 5, crashes=1)
    assert [(row[2], row[3]) for row in take(only)] == [(5, 4)]


@pytest.mark.parametrize(("here", "elsewhere", "is_dead"), [(2, 1000, True), (3, 1, False)])
def test_its_own_group_s_max_crashes_counts(
    only: Twins, here: int, elsewhere: int, is_dead: bool
) -> None:
    only.conn.execute(
        "update gapless.consumer_group"
        " set max_crashes = case when group_id = 'sender' and topic_id = %s then %s else %s end",
        [only.topic_ids["orders"], here, elsewhere],
    )
    note(only, HERE, [(1, 1, DONE), (2, 2, DUE), (3, 8, DONE)], tries=2)
    assert [row[2] for row in take(only)] == ([] if is_dead else [2])
    assert letters(only, HERE) == ([(2, "dead")] if is_dead else [])


def test_one_and_ten_thousand_may_be(only: Twins) -> None:
    assert len(take(only, 1)) == 1
    assert len(take(only, 10000)) == 3, "the rest of a block"


FINISHED: Notes = [(1, 3, DONE), (4, 4, DONE)]


@pytest.mark.parametrize(
    ("rest", "second", "is_swept"),
    [
        ([(5, 9, HELD)], (0.1, 1.0), True), ([], (0.1, 1.0), False), ([], (0.0, 0.0156), True),
        ([(5, 9, DONE)], (0.1, 1.0), True),
    ],
)  # fmt: skip
def test_who_finds_nothing_sweeps(
    twins: Twins, rest: Notes, second: tuple[float, float], is_swept: bool
) -> None:
    """And whoever finds something, now and then, for nobody else may be there: all partitions of the topic."""
    for place in PLACES:
        note(twins, place, FINISHED)
        note(twins, place, rest)
    seed(twins, (0.1, 1.0), second)
    assert bool(take(twins)) is (not rest)
    floors = twins.conn.execute(
        "select l.group_id, t.name, l.partition_id from gapless.lease l join gapless.topic t using (topic_id),"
        " gapless.floor_of(l.lease_no) f where f.next_offset > 1 order by l.lease_no"
    ).fetchall()
    assert floors == ([("sender", "orders", n) for n in range(3)] if is_swept else [])


TO = (
    "update gapless.outbox_message_t o set headers = jsonb_build_object('gapless-to-group', %s::text)"
    " from gapless.log_segment s, unnest(%s::bigint[]) n"
    " where s.topic_id = %s and s.partition_id = 1 and o.id = s.message_ids[n - s.base_offset + 1]"
)
# Which offsets are for another group, and which for this one by name; how many at most: what is got, what is passed.
Direct = tuple[list[int], list[int], int, list[int], list[int]]
DIRECT: list[Direct] = [
    ([], [], 4, [1, 2, 3, 4], []),
    ([1, 2], [3], 4, [3, 4], [1, 2]),
    ([1, 2], [3], 2, [3, 4], [1, 2]),
    ([1], [1, 2], 1, [1], []),
    ([1, 3], [], 3, [2], [1, 3]),
    ([1, 2, 3, 4, 5], [], 4, [6, 7, 8], [1, 2, 3, 4, 5]),
    ([1, 2, 3, 4, 5, 6, 7, 8], [], 4, [], [1, 2, 3, 4, 5, 6, 7, 8]),
]  # fmt: skip


@pytest.mark.parametrize("case", DIRECT)
@pytest.mark.parametrize("is_direct", [True, False])
def test_direct_messages(only: Twins, case: Direct, is_direct: bool) -> None:
    """What is for another group is passed, if the topic takes such, and not given to anybody."""
    others, ours, most, got, passed = case
    topic_id = only.topic_ids["orders"]
    only.conn.execute(
        "update gapless.topic set direct = %s where topic_id = %s", [is_direct, topic_id]
    )
    only.conn.execute(
        "update gapless.topic set direct = %s where topic_id <> %s", [not is_direct, topic_id]
    )
    only.conn.execute(TO, ["auditor", others, topic_id])
    only.conn.execute(TO, ["sender", ours, topic_id])
    events = {event[0]: event for event in only.conn.execute(READ).fetchall()}
    rows = take(only, most)
    if not is_direct:
        assert [row[2] for row in rows] == list(range(1, most + 1))
        return
    assert [row[1:] for row in rows] == [(1, n, 1, *events[n][1:]) for n in got]
    tokens = dict(
        only.conn.execute(
            "select n, token::text from gapless.queue_range, generate_series(first_offset, last_offset) n"
            " where lease_no = %s and token is not null",
            [only.leases[HERE]],
        ).fetchall()
    )
    assert {row[2]: row[0].rsplit(":", 1)[1] for row in rows} == tokens
    below = only.value("select next_offset from gapless.floor_of(%s)", only.leases[HERE])
    done = [
        n for first, last, state, *_ in noted(only) if state == DONE for n in range(first, last + 1)
    ]
    assert [*range(1, below), *done] == passed


def test_the_attempt_of_a_direct_message(only: Twins) -> None:
    only.conn.execute("update gapless.topic set direct = true")
    note(only, HERE, [(1, 8, DUE)], tries=2)
    assert [(row[2], row[3]) for row in take(only)] == [(1, 3)]
    letter(only, HERE, 5, crashes=1)
    assert [(row[2], row[3]) for row in take(only)] == [(5, 4)]


@pytest.mark.parametrize(
    ("value", "zero", "seconds"),
    [
        ("1 ms", False, 0.001), ("0 s", True, 0), ("366 days", False, 31622400), ("1 mon", True, 2592000),
        ("1 day", False, 86400), ("0 s", False, None), ("-1 ms", False, None), ("-1 ms", True, None),
        ("366 days 1 ms", True, None), ("366 days 1 ms", False, None), (None, True, None), (None, False, None),
    ],
)  # fmt: skip
def test_a_time(twins: Twins, value: str | None, zero: bool, seconds: float | None) -> None:
    ask = "select gapless.require_interval('delay', %s::interval, %s)"
    if seconds is not None:
        assert twins.value(ask, value, zero) == pytest.approx(seconds, abs=1e-9)
        return
    shown = "null" if value is None else twins.value("select %s::interval::text", value)
    what = "from 0 s on" if zero else "above 0 s"
    said = f"delay is a time {what}, at most 366 days, not {shown}"
    assert twins.refused(ask, [value, zero]) == ("GL400", said)


WORKER = "select * from gapless.take_next('sender', %s, 1, %s, 4, 4, null{})"
NOW = "set constraints gapless.refuse_early_take immediate"
FINISH = "select set_config('gapless.finished', pg_current_xact_id()::text, true)"


@pytest.mark.parametrize(
    ("more", "is_refused"),
    [("", True), (", 'me'", False), (", 'me', gen_random_uuid(), '2199-01-01'", False),
     (", null, gen_random_uuid(), '2199-01-01'", False)],
)  # fmt: skip
def test_what_a_worker_took_is_not_committed_before_it_says_so(
    twins: Twins, more: str, is_refused: bool
) -> None:
    twins.conn.execute("select set_config('gapless.finished', '', true)")
    twins.conn.execute(WORKER.format(more), [twins.topic_ids["orders"], twins.leases[HERE]])
    if is_refused:
        said = "a gapless handler must not COMMIT: its effects commit together with the offset"
        assert twins.refused(NOW) == ("GL001", said)
        twins.conn.execute(FINISH)
    twins.conn.execute(NOW)


@pytest.mark.parametrize("c_offset", [1, 4, 5, 8])
def test_a_block_is_locked_by_its_key(twins: Twins, c_offset: int) -> None:
    """As a death is noted of it: two that name it differently would both take it."""
    put(twins, HERE, c_offset)
    twins.conn.execute(WORKER.format(""), [twins.topic_ids["orders"], twins.leases[HERE]])
    ours = {(7427003, twins.leases[HERE], "ShareLock"), block_lock(twins, (c_offset - 1) // 4)}
    assert locks(twins) == ours
    hint = WORKER.format("").replace("null", str(c_offset % 8 + 1))
    twins.conn.execute(hint, [twins.topic_ids["orders"], twins.leases[HERE]])
    assert locks(twins) >= ours | {block_lock(twins, (c_offset % 8) // 4)}


def test_keys_of_blocks_are_never_below_zero(twins: Twins) -> None:
    """An advisory lock has two numbers of 32 bits, and pg_locks shows them without a sign."""
    ask = "select gapless.block_key(%s, %s)"
    keys = {
        twins.value(ask, lease, block)
        for lease in (1, 2, 3000, 2**31 - 1)
        for block in (0, 1, 2**50 + 7)
    }
    assert len(keys) == 12
    assert min(keys) >= 0
