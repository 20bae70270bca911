"""What becomes of a unit that was set aside and failed again, for all its subscriptions or for some; among twins."""

from typing import Any

import pytest

from support.letters import HERE, Letters

MINE = "'billing', {orders}, 1, 5, {token}"
LETTER = f"dead_letter {HERE} 3"
UNIT_3 = "where {here} and first_offset = 3"
OVER = ["parked", "dead", "redriven", "discarded"]


FAILED = f"select gapless.letter_failed({MINE}, 3, STATE, 'again', 'longer'MORE)"
NEWS = {
    "epoch": (7, None), "crashes": (1, 0), "reason": ("why", "again"), "exception": ("trace", "longer"),
    "last_failed_ts": ("old", "0 s"),
}  # fmt: skip
COUNTED = {"attempts": (2, 3)}
UNSAID = {
    "exception_class": ("Error", None), "sqlstate": ("P0001", None), "worker": ("worker", None),
    "duration_ms": (1.5, None),
}  # fmt: skip
SAID = ", 'KeyError', '22012', {}, 'other', 2.5"
SAYS = {
    "exception_class": ("Error", "KeyError"), "sqlstate": ("P0001", "22012"), "worker": ("worker", "other"),
    "duration_ms": (1.5, 2.5),
}  # fmt: skip
DIES = {"state": ("waiting", "dead"), "next_attempt_ts": ("old", None)}
# What is so before; the state it gets, what else is said; what becomes of its row.
FAILURES: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "waits": (
        "", "'waiting'", SAID.format("interval '1 hour'"),
        NEWS | COUNTED | SAYS | {"next_attempt_ts": ("old", "3600 s")},
    ),
    "waits, due at once": ("", "'waiting'", "", NEWS | COUNTED | UNSAID | {"next_attempt_ts": ("old", "0 s")}),
    "waits, and was dead before": (
        f"update gapless.dead_letter set died_ts = {{old}} {UNIT_3}", "'waiting'", "",
        NEWS | COUNTED | UNSAID | {"next_attempt_ts": ("old", "0 s")},
    ),
    "dies": ("", "'dead'", SAID.format("'1 hour'"), NEWS | COUNTED | SAYS | DIES | {"died_ts": (None, "0 s")}),
    "dies again": (
        f"update gapless.dead_letter set died_ts = {{old}} {UNIT_3}", "'dead'", "",
        NEWS | COUNTED | UNSAID | DIES | {"died_ts": ("old", "0 s")},
    ),
    "was not called": (
        "", "'dead'", ", _counted => false", NEWS | UNSAID | DIES | {"died_ts": (None, "0 s")},
    ),
    "for the first time": (
        f"update gapless.dead_letter set attempts = 0 {UNIT_3}", "'waiting'", "",
        NEWS | UNSAID | {
            "attempts": (0, 1), "first_failed_ts": ("old", "0 s"), "next_attempt_ts": ("old", "0 s"),
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_a_unit_that_failed_again(letters: Letters, name: str) -> None:
    before, state, more, columns = FAILURES[name]
    letters.run(before)
    assert letters.changes(FAILED.replace("STATE", state).replace("MORE", more)) == (
        True,
        {LETTER: columns},
    )


@pytest.mark.parametrize("how", OVER)
def test_a_unit_with_which_a_person_did_something_fails_no_more(letters: Letters, how: str) -> None:
    letters.put("waiting", 1)
    letters.put(how, 3)
    assert letters.changes(FAILED.replace("STATE", "'dead'").replace("MORE", "")) == (False, {})


# Subscriptions that event 5 matched, those that are to be called again; what is left of them.
NARROWED: list[tuple[str, str, dict[str, Any]]] = [
    ("'{1,2,3}'", "{2,9}", {"subscriptions": ("[1, 2, 3]", "[2]")}),
    ("'{3,1,2}'", "{1,3}", {"subscriptions": ("[3, 1, 2]", "[3, 1]")}),
    ("'{1,3}'", "{2}", {"subscriptions": ("[1, 3]", "[]"), "is_kept": (True, False)}),
    ("'{2}'", "{2,9}", {}),
    ("'{}'", "{2}", {}),
    ("null", "{2}", {}),
]  # fmt: skip


@pytest.mark.parametrize(("matched", "only", "columns"), NARROWED)
def test_a_unit_is_for_those_alone_that_failed(
    letters: Letters, matched: str, only: str, columns: dict[str, Any]
) -> None:
    doubled = matched.replace("{", "{{").replace("}", "}}")
    letters.run(
        f"update gapless.dead_letter_event set subscriptions = case c_offset when 5 then {doubled} end::bigint[]"
        " where {here} and first_offset = 4"
    )
    doubled = only.replace("{", "{{").replace("}", "}}")
    _, changed = letters.changes(f"select gapless.narrow_letter({MINE}, 4, '{doubled}')")
    assert changed == ({f"dead_letter_event {HERE} 5": columns} if columns else {})


def test_all_events_of_the_unit_are_narrowed_and_no_others(letters: Letters) -> None:
    _, changed = letters.changes(f"select gapless.narrow_letter({MINE}, 4, '{{{{1}}}}')")
    assert changed == {
        f"dead_letter_event {HERE} {n}": {"subscriptions": ("[1, 2, 3]", "[1]")} for n in (4, 5, 6)
    }
