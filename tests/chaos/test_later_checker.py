"""The checker knows events for later and schedules: a good history passes, each wrong one is found by name.

The histories are made by hand: no server, no clock.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from chaos.checker import later, schedules
from chaos.checker.attempts import Attempt, Fate
from chaos.checker.later_rows import Fired, Later, Step, Wait
from chaos.checker.rows import Placed
from chaos.checker.violation import Violation
from chaos.history import Cancelled, Invoke, Waiting
from chaos.later_shop import Rhythm

START = 1_700_000_000.0
PROMOTION = "900"  # a xid


def _place(tag: str, offset: int, *, ends: bool = True, xid: str = PROMOTION) -> Placed:
    return Placed(
        topic="later",
        partition_id=0,
        c_offset=offset,
        id=offset,
        tag=tag,
        key="k",
        digest=None,
        xid=xid,
        transaction_id=None,
        ends_unit=ends,
        seen={"headers": {}},
    )


def _due(name: str, offset: int, due: float) -> Placed:
    text = datetime.fromtimestamp(due, UTC).isoformat()
    headers = {"gapless-schedule": name, "gapless-due": text}
    return replace(_place(name, offset), seen={"headers": headers})


def _wait(tag: str, number: int, due: float, xid: str, what: str = "INSERT") -> Wait:
    at = START if what == "INSERT" else due + 0.2
    return Wait(
        what=what,
        scheduled_id=number,
        deliver_at=due,
        tag=tag,
        scheduled_xid=xid,
        application="chaos/later" if what == "INSERT" else "gapless/sequencer",
        xid=xid if what == "INSERT" else PROMOTION,
        began=at - 0.1,
        at=at,
    )


def _fired(name: str, old: float, new: float, events: int, at: float, last: float | None) -> Fired:
    before = None if last is None else last - 1
    return Fired(
        name=name,
        old_due_s=old,
        next_due_s=new,
        old_last_s=before,
        last_due_s=last,
        events=events,
        began=at,
        at=at + 0.1,
    )


def _attempt(name: str, fate: Fate = "committed") -> Attempt:
    invoke = Invoke(attempt=name, producer="p1", order=name, events=())
    said = "ok" if fate == "committed" else "fail"
    return Attempt(
        invoke=invoke, xid="1", said=said, fate=fate, committed_ns=int((START + 0.01) * 1e9)
    )


EARLY, LATE = START + 2, START + 3
# Transaction a: two events of one time, one of a later time. b: one of the early time. c: cancelled. r: rolled back.
WAITS = (
    *(_wait("a/0", 1, EARLY, "11"), _wait("a/1", 2, EARLY, "11"), _wait("a/2", 3, LATE, "11")),
    *(
        _wait("b/0", 4, EARLY, "12"),
        _wait("c/0", 5, LATE, "13"),
        _wait("f/0", 6, START + 999, "14"),
    ),
)
ENDS = (
    *(_wait("a/0", 1, EARLY, "11", "DELETE"), _wait("a/1", 2, EARLY, "11", "DELETE")),
    *(_wait("a/2", 3, LATE, "11", "DELETE"), _wait("b/0", 4, EARLY, "12", "DELETE")),
)
CANCEL = replace(_wait("c/0", 5, LATE, "13", "DELETE"), application="chaos/later", xid="77")
LOG = (
    *(_place("a/0", 1, ends=False), _place("a/1", 2), _place("b/0", 3), _place("a/2", 4)),
    *(_due("all", 5, START), _due("all", 6, START + 2), _due("once", 7, START + 3)),
    *(_due("skip", 8, START),),
)
FIRED = (
    _fired("all", START, START + 4, 2, START + 3, START + 2),
    _fired("once", START, START + 4, 1, START + 3.5, START + 3),
    _fired("skip", START, START + 90, 1, START + 1, START),
    _fired("skip", START + 90, START + 180, 0, START + 160, START),
)
RHYTHMS = (
    Rhythm(name="all", missed="all", period_s=2),
    Rhythm(name="once", missed="once", period_s=1),
    Rhythm(name="skip", missed="skip", period_s=90),
)
GOOD = Later(
    attempts={name: _attempt(name) for name in "abcf"} | {"r": _attempt("r", "aborted")},
    said=[
        *(Waiting(attempt=w.tag[0], tag=w.tag, scheduled_id=w.scheduled_id) for w in WAITS),
        Waiting(attempt="r", tag="r/0", scheduled_id=9),
    ],
    cancels=[
        Cancelled(client="p1", tag="c/0", told=True, ended="ok"),
        Cancelled(client="p1", tag="c/0", told=False, ended="ok"),
        Cancelled(client="p1", tag="f/0", told=True, ended="fail"),
    ],
    waits=[*WAITS, *ENDS, CANCEL],
    fired=[*FIRED],
    steps=[Step(ahead=0.0, since=0.0, until=float("inf"))],
    log={0: [*LOG]},
    rhythms=RHYTHMS,
    ended=START + 300,
)


def _log(*events: Placed) -> Later:
    """The good history with another log, its offsets 1, 2, 3."""
    numbered = [replace(event, c_offset=n) for n, event in enumerate(events, 1)]
    return replace(GOOD, log={0: numbered})


def _without(tag: str, what: str) -> Later:
    return replace(GOOD, waits=[w for w in GOOD.waits if (w.tag, w.what) != (tag, what)])


def _moved(index: int, **changes: object) -> Later:
    """The good history, in which one move of a schedule was another one."""
    fired = [*FIRED]
    fired[index] = replace(fired[index], **changes)  # type: ignore[arg-type]
    return replace(GOOD, fired=fired)


A0, A1, B0, A2, *SCHEDULED = LOG
WRONG: dict[str, tuple[str, Callable[[], Later]]] = {
    "wait lost": ("S1", lambda: replace(_without("f/0", "INSERT"))),
    "ghost": ("S1", lambda: _log(*LOG, _place("r/0", 9))),
    "came twice": ("S1", lambda: _log(*LOG, _place("b/0", 9, xid="901"))),
    "before its time": (
        "S1",
        lambda: replace(GOOD, waits=[replace(w, at=w.at - 0.3) for w in GOOD.waits]),
    ),
    "lost on the way": ("S1", lambda: _log(A0, A1, A2, *SCHEDULED)),
    "came, and waits still": ("S1", lambda: _without("b/0", "DELETE")),
    "not promoted": ("S1", lambda: replace(GOOD, ended=START + 1000)),
    "cancelled and delivered": ("S2", lambda: _log(*LOG, _place("c/0", 9))),
    "cancel lost": (
        "S2",
        lambda: replace(GOOD, cancels=[Cancelled(client="p1", tag="f/0", told=True, ended="ok")]),
    ),
    "cancel denied": (
        "S2",
        lambda: replace(GOOD, cancels=[Cancelled(client="p1", tag="f/0", told=False, ended="ok")]),
    ),
    "torn apart": ("S3", lambda: _log(A0, B0, A1, A2, *SCHEDULED)),
    "taken together": (
        "S3",
        lambda: _log(A0, replace(A1, ends_unit=False), B0, A2, *SCHEDULED),
    ),
    "out of turn": ("S4", lambda: _log(A0, A1, A2, B0, *SCHEDULED)),
    "schedule doubled": ("S1", lambda: _log(*LOG, _due("all", 9, START + 2))),
    "schedule out of turn": ("S4", lambda: _log(A0, A1, B0, A2, *reversed(SCHEDULED))),
    "schedule went back": ("S1", lambda: _moved(3, old_due_s=START)),
    "due time lost": ("S1", lambda: _log(*LOG[:-1])),
    "ghost of a schedule": ("S1", lambda: _log(*LOG, _due("once", 9, START + 77))),
    "schedule before its time": ("S1", lambda: _moved(1, at=START + 2.9, began=START + 2.9)),
}
# What was missed is published as the policy says.
MISSED: dict[str, Callable[[], Later]] = {
    "all leaves one out": lambda: _moved(0, next_due_s=START + 6),
    "once publishes what is not the newest": lambda: _moved(1, began=START + 9, at=START + 9),
    "once publishes nothing": lambda: _moved(1, events=0),
    "once publishes two": lambda: _moved(1, events=2),
    "skip publishes what is old": lambda: _moved(2, began=START + 61, at=START + 61),
    "skip lets go what is young": lambda: _moved(3, began=START + 140, at=START + 140),
}


def _found(history: Later) -> Iterable[Violation]:
    return [*later.find_in(history), *schedules.find_in(history)]


def test_a_good_history_passes() -> None:
    assert not _found(GOOD)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_history_is_found(name: str) -> None:
    invariant, make = WRONG[name]
    found = {(each.invariant, each.name) for each in _found(make())}
    assert (invariant, name) in found


@pytest.mark.parametrize("what", MISSED)
def test_a_policy_that_is_not_kept_is_found(what: str) -> None:
    assert "missed otherwise than said" in {each.name for each in _found(MISSED[what]())}


def test_a_clock_that_is_ahead_is_no_violation_and_one_behind_is() -> None:
    waits = [replace(w, began=w.began - 5, at=w.at - 5) if w.what == "DELETE" else w for w in ENDS]
    early = replace(GOOD, waits=[*WAITS, *waits, CANCEL])
    ahead = Step(ahead=5.0, since=START - 10, until=float("inf"))
    assert "before its time" in {each.name for each in _found(early)}
    early = replace(early, steps=[replace(GOOD.steps[0], until=START - 10), ahead])
    assert not {each.name for each in _found(early)} & {"before its time"}


def test_two_times_of_one_transaction_may_be_one_unit() -> None:
    history = _log(A0, replace(A1, ends_unit=False), A2, *SCHEDULED)
    waits = [w for w in GOOD.waits if w.tag != "b/0"]
    said = [s for s in GOOD.said if s.tag != "b/0"]
    assert not _found(replace(history, waits=waits, said=said))
