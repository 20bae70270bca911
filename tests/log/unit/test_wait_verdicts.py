"""How wait_for() goes on and how it ends, whatever the database says, and when."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import pytest

from gapless.errors import UsageError, WaitError
from gapless.log import wait as module
from gapless.log.script import Trouble
from gapless.log.wait import wait_error, waiting
from support.scripted import Answers

ID = "12345678-1234-5678-1234-567812345678"
WAITS = ("waiting", "scheduled", "pending", "unsequenced", "open", "unknown")
REASONS = {
    "rolled-back": "it was rolled back: nothing of it was published",
    "elsewhere": "it published nothing into a topic of this group",
    "skipped": "the group passed it without a call: a seek, or it began after it",
    "waiting": "it failed, and waits to be tried again",
    "scheduled": "it is scheduled until noon",
    "pending": "the group has not come to it yet",
    "unsequenced": "its events have no offsets yet: does a sequencer run?",
    "open": "it has not committed yet",
    "unknown": "no event of it is there: not committed, rolled back, or never published",
}


def answers(monkeypatch: pytest.MonkeyPatch, *states: str) -> Answers:
    return Answers(monkeypatch, module, *((state, "g", "noon") for state in states))


@pytest.mark.parametrize("end", ["handled", "dead"])
def test_it_waits_until_it_is_done_in_short_calls(
    monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    told = answers(monkeypatch, *WAITS, end)
    assert told.play(waiting("g", ID, 6.25)(None)) == end
    assert told.asked == [
        ("wait_for", {"groups": ["g"], "transaction_id": ID, "timeout_s": timeout_s})
        for timeout_s in [0.5] * 6 + [0.25]
    ]


@pytest.mark.parametrize("state", WAITS)
@pytest.mark.parametrize(("timeout_s", "looks"), [(3, 3), (2.5, 3), (0, 1), (-5, 1)])
def test_it_gives_up_when_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch, state: str, timeout_s: float, looks: int
) -> None:
    told = answers(monkeypatch, *[state] * 9)
    with pytest.raises(WaitError) as caught:
        told.play(waiting("g", UUID(ID), timeout_s)(None))
    assert len(told.asked) == looks
    said = f"group g has not handled transaction {ID}: {REASONS[state]}"
    assert (str(caught.value), caught.value.state, caught.value.group) == (said, state, "g")


@pytest.mark.parametrize("state", ["rolled-back", "elsewhere", "skipped"])
def test_it_gives_up_at_once_when_it_can_never_happen(
    monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    told = answers(monkeypatch, "pending", state, "handled")
    with pytest.raises(WaitError, match=REASONS[state]) as caught:
        told.play(waiting("g", ID, 50.0)(None))
    assert (len(told.asked), caught.value.state) == (2, state)


@pytest.mark.parametrize(
    ("through", "groups"),
    [((), ["g"]), (["a", "b"], ["a", "b", "g"]), (["a", "g"], ["a", "g"]), ("a", ["a", "g"]), ("g", ["g"]),
     (("a",), ["a", "g"]), (["g", "a"], ["g", "a", "g"])],
)  # fmt: skip
def test_groups_in_a_chain_are_waited_for_in_order(
    monkeypatch: pytest.MonkeyPatch, through: Iterable[str], groups: list[str]
) -> None:
    """Of any but the first it is said that the transaction is not its own."""
    told = answers(monkeypatch, "handled", "pending")
    told.play(waiting("g", ID, through=through)(None))
    assert [params["groups"] for _, params in told.asked] == [groups]
    with pytest.raises(WaitError) as caught:
        told.play(waiting("g", ID, 0, through=groups)(None))
    what = "" if groups[0] == "g" else "the results of "
    assert str(caught.value).startswith(f"group g has not handled {what}transaction {ID}: ")


DRIVER = ValueError("the driver's")


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (Trouble(DRIVER, "GL404", "no such group", None), UsageError, "no such group"),
        (Trouble(DRIVER, "GL409", "not here", "more"), UsageError, "not here"),
        (Trouble(DRIVER, "57014", "cancelled", None), ValueError, "the driver's"),
        (Trouble(DRIVER, "", "gone", None), ValueError, "the driver's"),
    ],
)
def test_what_went_wrong_is_said_by_whose_fault_it_is(
    error: Any, kind: type[Exception], text: str
) -> None:
    found = wait_error(error)
    assert (type(found), str(found)) == (kind, text)
