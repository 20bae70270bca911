"""What a person asks for a unit that was set aside: to have it handled again, given up, mended; among twins."""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.letters import HERE, Letters, of

LOCKED = {"guard_keys billing orders": {"is": (None, "there")}}
UNIT_3 = "where {here} and first_offset = 3"


@pytest.fixture
def other(set_aside: Letters, module_dsn: str) -> Iterator[Connection[Any]]:
    """Somebody else, in a transaction."""
    assert set_aside
    with connect(module_dsn, role="other") as conn, conn.transaction(force_rollback=True):
        yield conn


def takes(other: Connection[Any], letters: Letters, where: str) -> None:
    """Somebody else has these units in hand; nobody is to wait for that."""
    letters.run("set local lock_timeout = '500ms'")
    words = letters.words
    lock = f"select from gapless.dead_letter where {where} for update"
    other.execute(lock.format(**words))


LOCK = "select gapless.lock_letter('billing', {{orders}}, 1, {})"
STATES = {1: "dead", 3: "waiting", 4: "parked", 7: "redriven", 8: "discarded"}


@pytest.mark.parametrize("first_offset", STATES)
def test_a_unit_that_nobody_has_is_locked(letters: Letters, first_offset: int) -> None:
    letters.put("redriven", 7)
    columns = "group_id, topic_id, partition_id, first_offset"
    before = letters.locked("dead_letter", columns)
    assert letters.changes(LOCK.format(first_offset)) == (STATES[first_offset], {})
    locked = letters.locked("dead_letter", columns)
    assert {*before, *locked} == {*before, ("billing", letters.words["orders"], 1, first_offset)}


@pytest.mark.parametrize("where", ["{here} and first_offset = 3", "{here}", "true"])
def test_a_unit_that_somebody_has_is_busy(
    letters: Letters, other: Connection[Any], where: str
) -> None:
    takes(other, letters, where)
    assert letters.value(LOCK.format(3)) == "busy"
    assert letters.changes(REDRIVE.format(3)) == ("busy", {})
    assert letters.changes(DISCARD.format(3)) == ("busy", LOCKED)
    assert letters.changes(MEND, mends(3, [3])) == ("busy", {})


@pytest.mark.parametrize("is_busy", [True, False])
def test_a_unit_that_is_elsewhere_alone_is_absent(
    letters: Letters, other: Connection[Any], is_busy: bool
) -> None:
    letters.run(f"delete from gapless.dead_letter {UNIT_3}")
    if is_busy:
        takes(other, letters, "not ({here} and first_offset = 3)")
    assert letters.value(LOCK.format(3)) == "absent"
    assert letters.changes(REDRIVE.format(3)) == ("absent", {})
    assert letters.changes(DISCARD.format(3)) == ("absent", LOCKED)
    assert letters.changes(MEND, mends(3, [3])) == ("absent", {})


def test_what_others_have_elsewhere_is_in_nobody_s_way(
    letters: Letters, other: Connection[Any]
) -> None:
    takes(other, letters, "not ({here} and first_offset = 3)")
    assert letters.value(LOCK.format(3)) == "waiting"


REDRIVE = "select gapless.redrive_letter('billing', 'orders', 1, {}, 'ann')"
ASKED = {"next_attempt_ts": (None, "0 s"), "redriven_by": (None, "ann"), "redriven_ts": (None, "0 s")}  # fmt: skip


def test_a_dead_unit_is_due_at_once(letters: Letters) -> None:
    asked = {f"dead_letter {HERE} 1": ASKED | {"state": ("dead", "waiting")}}
    assert letters.changes(REDRIVE.format(1)) == ("asked", asked)
    same = letters.value(
        "select redriven_ts = next_attempt_ts from gapless.dead_letter where {here} and first_offset = 1"
    )
    assert same, "by this one knows that a person asked last"


def test_one_that_waits_waits_no_more(letters: Letters) -> None:
    letters.run(
        f"update gapless.dead_letter set next_attempt_ts = now() + interval '1 hour' {UNIT_3}"
    )
    asked = {f"dead_letter {HERE} 3": ASKED | {"next_attempt_ts": ("3600 s", "0 s")}}
    assert letters.changes(REDRIVE.format(3)) == ("asked", asked)


@pytest.mark.parametrize("state", ["parked", "redriven", "discarded"])
def test_nothing_else_is_handled_again(letters: Letters, state: str) -> None:
    letters.put(state, 3)
    assert letters.changes(REDRIVE.format(3)) == (state, {})


def test_who_asked_is_the_session_s_user_unless_it_says(letters: Letters) -> None:
    user = letters.value("select session_user")
    _, changed = letters.changes(REDRIVE.format(1).replace(", 'ann'", ""))
    assert changed[f"dead_letter {HERE} 1"]["redriven_by"] == (None, user)
    _, changed = letters.changes(DISCARD.format(1).replace(", 'ann'", ""))
    assert changed[f"dead_letter {HERE} 1"]["discarded_by"] == (None, user)
    _, changed = letters.changes(MEND, mends(1, [1, 2]) | {"by": None})
    assert mended(changed)[0][0] == user


def test_a_retired_partition_has_a_worker_again(letters: Letters) -> None:
    letters.run("update gapless.topic set partitions = 1; delete from gapless.lease")
    _, changed = letters.changes(REDRIVE.format(1))
    assert list(of(changed, "lease")) == [HERE]


DISCARD = "select gapless.discard_letter('billing', 'orders', 1, {}, 'broken', 'ann')"
GIVEN_UP = {
    "epoch": (7, None), "closed_ts": (None, "0 s"), "discarded_by": (None, "ann"),
    "discard_reason": (None, "broken"),
}  # fmt: skip
PARKED = {1: "ab", 3: "d", 4: "ac", 7: "b"}
DISCARDED: dict[int, dict[str, Any]] = {
    1: {
        f"dead_letter {HERE} 1": GIVEN_UP | {"state": ("dead", "discarded")},
        f"dead_letter {HERE} 4": {"state": ("parked", "waiting"), "next_attempt_ts": (None, "0 s")},
    },
    3: {f"dead_letter {HERE} 3": GIVEN_UP | {"state": ("waiting", "discarded"), "next_attempt_ts": ("old", None)}},
    4: {f"dead_letter {HERE} 4": GIVEN_UP | {"state": ("parked", "discarded")}},
}  # fmt: skip


@pytest.mark.parametrize("first_offset", DISCARDED)
@pytest.mark.parametrize("held", [PARKED, {}])
def test_a_unit_is_given_up_for_good(
    letters: Letters, first_offset: int, held: dict[int, str]
) -> None:
    """Who was parked behind it alone follows; its keys are free."""
    letters.keys(held)
    answer, changed = letters.changes(DISCARD.format(first_offset))
    assert answer == "discarded"
    rows = dict(DISCARDED[first_offset])
    if not held:
        rows.pop(f"dead_letter {HERE} 4", None) if first_offset != 4 else None
    freed = held.get(first_offset, "")
    keys = {f"{HERE} {key} {first_offset}" for key in freed}
    assert of(changed, "dead_letter") == of(rows, "dead_letter")
    assert of(changed, "dead_letter_key").keys() == keys
    assert len(changed) == len(rows) + len(keys) + 1
    assert changed["guard_keys billing orders"] == LOCKED["guard_keys billing orders"]


@pytest.mark.parametrize(
    ("state", "answer"), [("discarded", "discarded already"), ("redriven", "redriven")]
)
def test_what_is_over_is_not_given_up(letters: Letters, state: str, answer: str) -> None:
    letters.keys(PARKED)
    letters.put(state, 3)
    assert letters.changes(DISCARD.format(3)) == (answer, LOCKED)


@pytest.mark.parametrize("reason", ["null", "''", "'  '"])
def test_nothing_is_given_up_without_a_reason(letters: Letters, reason: str) -> None:
    refused = letters.twins.refused(
        f"select gapless.discard_letter('billing', 'orders', 1, 1, {reason})"
    )
    assert refused == ("GL400", "a dead letter is discarded with a reason")


MEND = (
    "select gapless.mend_letter('billing', 'orders', 1, %(first)s, %(offsets)s::bigint[],"
    " %(types)s::text[], %(headers)s::text[], %(payloads)s::text[], %(by)s)"
)


def mends(first_offset: int, offsets: list[int], **last: Any) -> dict[str, Any]:
    """The same events as there are, but for this of the last one."""
    many = len(offsets) - 1
    same = {"types": "type", "headers": '{"h":1}', "payloads": '{"n": 1}'}
    params = {name: [value] * many + [last.get(name, value)] for name, value in same.items()}
    return {"first": first_offset, "offsets": offsets, **params, "by": "ann"}


def mended(changed: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What was written to the audit: by whom, of which partition, what."""
    return [
        (row["who"][1], row["partition_id"][1], row["detail"][1])
        for name, row in of(changed, "audit").items()
        if name.startswith(f"{HERE} mend")
    ]


def audit(offset: int, was: str, changed: int) -> list[tuple[Any, ...]]:
    return [("ann", 1, f'{{"was": "{was}", "offset": {offset}, "events_changed": {changed}}}')]


# What is different of the last of two events of unit 1, and its columns that change.
MENDS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"types": "new"}, {"event_type": ("type", "new")}),
    ({"types": None}, {"event_type": ("type", None)}),
    ({"headers": '{"h": 2}'}, {"headers": ('{"h": 1}', '{"h": 2}')}),
    ({"headers": None}, {"headers": ('{"h": 1}', None)}),
    ({"payloads": "[2]"}, {"payload": ('{"n": 1}', "[2]")}),
    (
        {"types": "new", "headers": "{}", "payloads": "{}"},
        {"event_type": ("type", "new"), "headers": ('{"h": 1}', "{}"), "payload": ('{"n": 1}', "{}")},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("last", "columns"), MENDS)
def test_what_is_mended_of_a_dead_unit(
    letters: Letters, last: dict[str, Any], columns: dict[str, Any]
) -> None:
    answer, changed = letters.changes(MEND, mends(1, [1, 2], **last))
    assert answer == "mended"
    assert mended(changed) == audit(1, "dead", len(columns) and 1)
    rest = {name: row for name, row in changed.items() if not name.startswith("audit")}
    event = {f"dead_letter_event {HERE} 2": columns} if columns else {}
    assert rest == LOCKED | event
    assert len(of(changed, "audit")) == 1


def test_a_discarded_unit_is_dead_again(letters: Letters) -> None:
    answer, changed = letters.changes(MEND, mends(8, [8]))
    assert answer == "mended"
    assert mended(changed) == audit(8, "discarded", 0)
    assert of(changed, "dead_letter") == {
        f"{HERE} 8": {
            "state": ("discarded", "dead"),
            "closed_ts": ("old", None),
            "discarded_by": ("bob", None),
            "discard_reason": ("of no use", None),
        }
    }
    assert not of(changed, "dead_letter_event")


@pytest.mark.parametrize("state", ["waiting", "parked", "redriven"])
def test_what_is_or_was_handled_is_not_mended(letters: Letters, state: str) -> None:
    letters.put(state, 3)
    assert letters.changes(MEND, mends(3, [3], types="new")) == (state, LOCKED)


@pytest.mark.parametrize("offsets", [[1], [1, 2, 3], [2, 1], [1, 3], [2], []])
def test_a_unit_is_mended_as_a_whole(letters: Letters, offsets: list[int]) -> None:
    mend = mends(1, offsets or [1], types="new") | {"offsets": offsets}
    assert letters.changes(MEND, mend) == ("other events", LOCKED)


def test_an_event_that_is_of_another_unit_by_now_is_not_mended(letters: Letters) -> None:
    letters.run(
        "update gapless.dead_letter_event set first_offset = 2 where {here} and c_offset = 2"
    )
    assert letters.changes(MEND, mends(1, [1, 2])) == ("other events", LOCKED)
    answer, changed = letters.changes(MEND, mends(1, [1], types="new"))
    assert answer == "mended"
    assert list(of(changed, "dead_letter_event")) == [f"{HERE} 1"]
