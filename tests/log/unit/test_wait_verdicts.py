"""How wait_for() goes on and how it ends, whatever the database says, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import psycopg
import pytest

from gapless.errors import UsageError, WaitError
from gapless.log import wait as module
from gapless.log.foreign import Trouble
from gapless.log.wait import wait_for

ID = "12345678-1234-5678-1234-567812345678"
WAITS = ("waiting", "scheduled", "pending", "unsequenced", "open", "unknown")
REASONS = {
    "rolled-back": "it was rolled back: nothing of it was published",
    "elsewhere": "it published nothing into a topic of this group",
    "waiting": "it failed, and waits to be tried again",
    "scheduled": "it is scheduled until noon",
    "pending": "the group has not come to it yet",
    "unsequenced": "its events have no offsets yet: does a sequencer run?",
    "open": "it has not committed yet",
    "unknown": "no event of it is there: not committed, rolled back, or never published",
}


class _Clock:
    """A clock that goes on a second with each question, and answers to these."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *states: str, group: str = "g") -> None:
        self.now_s = 100.0
        self.asked: list[Any] = []
        self._rows = [(state, group, "noon") for state in states]
        monkeypatch.setattr(module, "monotonic", lambda: self.now_s)
        for name in ("_ask", "_ask_async"):
            monkeypatch.setattr(module, name, getattr(self, name))
        monkeypatch.setattr(module, "borrow", lambda conn: conn)

    def _ask(self, conn: object, wanted: Any, give_up_s: float) -> Any:
        assert conn == "conn"
        self.asked.append((wanted.groups, wanted.transaction_id, give_up_s))
        self.now_s += 1
        return self._rows.pop(0)

    async def _ask_async(self, conn: object, wanted: Any, give_up_s: float) -> Any:
        return self._ask(conn, wanted, give_up_s)


_wait_for: Any = wait_for


async def _awaited() -> str:
    return "conn"


def waited(monkeypatch: pytest.MonkeyPatch, is_async: bool, *args: Any, **more: Any) -> Any:
    if not is_async:
        return _wait_for("conn", *args, **more)
    monkeypatch.setattr(module, "borrow", lambda conn: _awaited())

    async def run() -> Any:
        return await _wait_for("conn", *args, **more)

    return asyncio.run(run())


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("end", ["handled", "dead"])
def test_it_waits_until_it_is_done(
    monkeypatch: pytest.MonkeyPatch, end: str, is_async: bool
) -> None:
    clock = _Clock(monkeypatch, *WAITS, end)
    assert waited(monkeypatch, is_async, "g", ID) == end
    assert clock.asked == [(["g"], ID, 110.0)] * 7


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("state", WAITS)
@pytest.mark.parametrize(("timeout_s", "looks"), [(3, 3), (2.5, 3), (0, 1), (-5, 1)])
def test_it_gives_up_when_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch, state: str, timeout_s: float, looks: int, is_async: bool
) -> None:
    clock = _Clock(monkeypatch, *[state] * 9)
    with pytest.raises(WaitError) as caught:
        waited(monkeypatch, is_async, "g", UUID(ID), timeout_s)
    assert clock.asked == [(["g"], ID, 100.0 + max(0, timeout_s))] * looks
    said = f"group g has not handled transaction {ID}: {REASONS[state]}"
    assert (str(caught.value), caught.value.state, caught.value.group) == (said, state, "g")


@pytest.mark.parametrize("state", ["rolled-back", "elsewhere"])
def test_it_gives_up_at_once_when_it_can_never_happen(
    monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    clock = _Clock(monkeypatch, "pending", state, "handled")
    with pytest.raises(WaitError, match=REASONS[state]) as caught:
        wait_for("conn", "g", ID, 50.0)
    assert (len(clock.asked), caught.value.state) == (2, state)


@pytest.mark.parametrize(
    ("through", "groups"),
    [((), ["g"]), (["a", "b"], ["a", "b", "g"]), (["a", "g"], ["a", "g"]), ("a", ["a", "g"]), ("g", ["g"]),
     (("a",), ["a", "g"]), (["g", "a"], ["g", "a", "g"])],
)  # fmt: skip
def test_groups_in_a_chain_are_waited_for_in_order(
    monkeypatch: pytest.MonkeyPatch, through: Iterable[str], groups: list[str]
) -> None:
    """Of any but the first it is said that the transaction is not its own."""
    clock = _Clock(monkeypatch, "handled", "pending")
    wait_for("conn", "g", ID, through=through)
    assert [each[0] for each in clock.asked] == [groups]
    with pytest.raises(WaitError) as caught:
        wait_for("conn", "g", ID, 0, through=groups)
    what = "" if groups[0] == "g" else "what came of "
    assert str(caught.value).startswith(f"group g has not handled {what}transaction {ID}: ")


@pytest.mark.parametrize("value", ["x", "", 7, None, b"x"])
def test_what_is_no_transaction(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    clock = _Clock(monkeypatch)
    with pytest.raises(UsageError) as caught:
        wait_for("conn", "g", value)
    assert (str(caught.value), clock.asked) == (f"transaction_id {value!r} is not a UUID", [])
    with pytest.raises(UsageError, match=r"^timeout_s='5': a number of seconds$"):
        wait_for("conn", "g", ID, "5")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("give_up_s", "timeout_s"),
    [(99.0, 0.0), (100.0, 0.0), (100.25, 0.25), (100.5, 0.5), (101.0, 0.5), (10**9, 0.5)],
)
def test_the_server_waits_in_short_calls(
    monkeypatch: pytest.MonkeyPatch, give_up_s: float, timeout_s: float
) -> None:
    _Clock(monkeypatch)
    wanted = module._Wanted(["a", "g"], ID)
    params = {"groups": ["a", "g"], "transaction_id": ID, "timeout_s": timeout_s}
    assert module._slice(wanted, give_up_s) == params
    assert next(module._script(wanted, give_up_s)) == ("wait_for", params)


DRIVER = ValueError("the driver's")


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (Trouble(DRIVER, "GL404", "no such group", None), UsageError, "no such group"),
        (Trouble(DRIVER, "GL409", "not here", "more"), UsageError, "not here"),
        (Trouble(DRIVER, "57014", "cancelled", None), ValueError, "the driver's"),
        (Trouble(DRIVER, "", "gone", None), ValueError, "the driver's"),
        (psycopg.errors.QueryCanceled("cancelled"), psycopg.errors.QueryCanceled, "cancelled"),
        (psycopg.OperationalError("gone"), psycopg.OperationalError, "gone"),
    ],
)
def test_what_went_wrong_is_said_by_whose_fault_it_is(
    error: Any, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind) as caught:
        module._explain(error)
    assert str(caught.value) == text
    assert type(caught.value) is kind
