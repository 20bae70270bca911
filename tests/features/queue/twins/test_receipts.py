"""What is said of a receipt: of its events alone, among receipts that are just like it, and once."""

from typing import Any

import pytest

from support.twins import Twins

HERE = ("sender", "orders", 1)
PLACES = (HERE, ("sender", "orders", 2), ("sender", "other", 1), ("auditor", "orders", 1))
GROUP, TOPIC, PARTITION = HERE
RESERVE = "select * from gapless.reserve(%s, %s, %s, %s, '1 h', 'who', %s)"
RANGES = (
    "select first_offset, last_offset, case when deadline is null then 'done' when token is not null then 'held'"
    " else 'back' end, tries, holder from gapless.queue_range where lease_no = %s order by 1"
)
HELD = ("held", 1, "who")
Place = tuple[str, str, int]


def reserve(twins: Twins, here: Place, most: int = 4, what: str = "any") -> str:
    group, topic, partition = here
    rows = twins.conn.execute(
        RESERVE, [group, twins.topic_ids[topic], partition, most, what]
    ).fetchall()
    return str(rows[0][0])


@pytest.fixture
def taken(twins: Twins) -> dict[Place, str]:
    """Of four places offsets 1 to 4 under one receipt, and 5 under another."""
    receipts = {here: reserve(twins, here) for here in PLACES}
    for here in PLACES:
        reserve(twins, here, 1)
    return receipts


@pytest.fixture
def letters(twins: Twins) -> dict[Place, str]:
    """Of four places two events that were given back with a delay: the first under a receipt, as a letter."""
    for here in PLACES:
        receipt = reserve(twins, here, 2)
        twins.conn.execute(
            "select gapless.release(%s, %s, %s, '1 h', reason => 'later')", [*here[:2], receipt]
        )
    twins.conn.execute("update gapless.dead_letter set next_attempt_ts = clock_timestamp()")
    return {here: reserve(twins, here, what="aside") for here in PLACES}


def call(twins: Twins, function: str, receipt: str, *more: object) -> tuple[Any, Any]:
    """What it answers, and what it changes."""
    rest = "".join(f", {each}" for each in more)
    changed = twins.changes(
        "create temp table answer on commit drop as"
        f" select gapless.{function}('{GROUP}', '{TOPIC}', '{receipt}'{rest}) as is_it"
    )
    return twins.value("select is_it from answer"), changed


def ranges(twins: Twins) -> list[tuple[Any, ...]]:
    return [row for row in twins.conn.execute(RANGES, [twins.leases[HERE]]) if row[0] < 5]


def cut(c_offset: int | None, what: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """What is noted when this has happened to one of the four events, or to all."""
    if c_offset is None:
        return [(1, 4, *what)]
    found: list[tuple[Any, ...]] = [(c_offset, c_offset, *what)]
    if c_offset > 1:
        found.insert(0, (1, c_offset - 1, *HELD))
    if c_offset < 4:
        found.append((c_offset + 1, 4, *HELD))
    return found


WHICH = pytest.mark.parametrize("c_offset", [None, 1, 2, 4])
ANSWERS = {
    "acknowledge": ("acknowledge", [], ("done", 1)),
    "release": ("release", [], ("back", 0)),
    "release later": ("release", ["delay => '1 h'"], ("done", 1)),
    "reject": ("reject", ["'bad'"], ("done", 1)),
}


def said(how: str, c_offset: int | None) -> tuple[str, list[object]]:
    function, more, _ = ANSWERS[how]
    given = [*more]
    if c_offset is not None:
        given.append(f"c_offset => {c_offset}")
    return function, given


@WHICH
@pytest.mark.parametrize("how", ANSWERS)
def test_an_answer_to_a_range(
    twins: Twins, taken: dict[Place, str], how: str, c_offset: int | None
) -> None:
    function, more = said(how, c_offset)
    state, tries = ANSWERS[how][2]
    owner = twins.value("select session_user::text") if how == "acknowledge" else "who"
    answer, changed = call(twins, function, taken[HERE], *more)
    events = [1, 2, 3, 4] if c_offset is None else [c_offset]
    assert answer == len(events)
    assert ranges(twins) == cut(c_offset, (state, tries, owner))
    lease = twins.leases[HERE]
    rest = {
        name: row for name, row in changed.items() if not name.startswith(f"queue_range {lease} ")
    }
    assert not any(name == f"queue_range {lease} 5" for name in changed)
    topic = f"{GROUP} {TOPIC} {PARTITION}"
    asides = [f"dead_letter {topic} {n}" for n in events]
    asides += [f"dead_letter_event {topic} {n}" for n in events]
    assert sorted(rest) == sorted(asides if how in {"release later", "reject"} else [])
    for n in events if asides and rest else []:
        row = rest[f"dead_letter {topic} {n}"]
        found = [row[name][1] for name in ("state", "attempts", "reason", "worker") if name in row]
        assert found == (
            ["waiting", 0, "given back", found[-1]] if how == "release later" else ["dead", 1, "bad", found[-1]]
        )  # fmt: skip
    del changed
    twins.conn.execute("drop table answer")
    again = f"select gapless.{function}('{GROUP}', '{TOPIC}', '{taken[HERE]}'{''.join(f', {each}' for each in more)})"
    assert twins.refused(again)[0] == "GL003"


@WHICH
def test_more_time_for_a_range(twins: Twins, taken: dict[Place, str], c_offset: int | None) -> None:
    more = ["'2 h'"] + ([f"c_offset => {c_offset}"] if c_offset else [])
    answer, changed = call(twins, "extend", taken[HERE], *more)
    assert ranges(twins) == cut(c_offset, HELD)
    lease = twins.leases[HERE]
    assert all(name.startswith(f"queue_range {lease} ") for name in changed)
    longer = twins.conn.execute(
        "select lease_no, first_offset, deadline from gapless.queue_range where deadline > now() + interval '90 min'"
    ).fetchall()
    assert longer == [(lease, c_offset or 1, answer)]
    assert twins.refused(
        f"select gapless.extend('{GROUP}', '{TOPIC}', '{taken[HERE]}', '1 h', 5)"
    )[0] == "GL003"  # fmt: skip


@pytest.mark.parametrize("how", [*ANSWERS, "extend"])
def test_an_answer_to_a_letter(twins: Twins, letters: dict[Place, str], how: str) -> None:
    function, more = said(how, None) if how in ANSWERS else ("extend", ["'2 h'"])
    number = twins.value("select count(*) from gapless.dead_letter")
    answer, changed = call(twins, function, letters[HERE], *more)
    here = f"dead_letter {GROUP} {TOPIC} {PARTITION} 1"
    row = changed.pop(here)
    event = changed.pop(f"dead_letter_event {GROUP} {TOPIC} {PARTITION} 1", None)
    assert not changed
    if how == "acknowledge":
        assert answer == 1
        assert event is not None
        assert twins.value("select count(*) from gapless.dead_letter") == number - 1
        state = None
    else:
        assert event is None
        state = twins.conn.execute(
            f"select state, attempts, crashes, reason, token is null from gapless.dead_letter"
            f" where {twins.here(GROUP)} and first_offset = 1"
        ).fetchone()
    assert (
        state
        == {
            "acknowledge": None,
            "release": ("waiting", 0, 0, "later", True),
            "release later": ("waiting", 0, 0, "given back", True),
            "reject": ("dead", 1, 0, "bad", True),
            "extend": ("waiting", 0, 1, "later", False),
        }[how]
    )
    if how == "extend":
        assert row == {}
        return
    assert answer == 1
    twins.conn.execute("drop table answer")
    rest = "".join(f", {each}" for each in more)
    again = f"select gapless.{function}('{GROUP}', '{TOPIC}', '{letters[HERE]}'{rest})"
    assert twins.refused(again)[0] == "GL003"


@pytest.mark.parametrize(
    ("group", "topic", "state"),
    [
        ("auditor", "orders", "GL400"), ("sender", "other", "GL400"), ("billing", "orders", "GL409"),
        ("nobody", "orders", "GL404"), ("sender", "nothing", "GL404"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("function", ["acknowledge", "release", "reject", "extend"])
def test_whose_receipt_it_is(
    twins: Twins, taken: dict[Place, str], function: str, group: str, topic: str, state: str
) -> None:
    rest = ", 'bad'" if function == "reject" else ""
    call = f"select gapless.{function}(%s, %s, %s{rest})"
    assert twins.refused(call, [group, topic, taken[HERE]])[0] == state
