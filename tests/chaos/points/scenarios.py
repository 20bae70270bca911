"""For every failpoint, what makes some process pass it: a small run of about twelve orders."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress

from chaos.checker import report
from chaos.points import traps
from chaos.points.ghost import visit
from chaos.points.theatre import StuckError, Theatre
from chaos.points.traps import Action

Provoke = Callable[[Theatre], None]
ORDERS = 12
POISON = 5
TIMES_MAX = 5


def work(theatre: Theatre) -> None:
    """Twelve orders, one of them poison."""
    theatre.publish(*theatre.orders(ORDERS, poison=[POISON]))


def fall_behind(theatre: Theatre) -> None:
    """More than workers take at once, so they read ahead."""
    with theatre.paused():
        theatre.publish(*theatre.orders(ORDERS * 10))


def hand_over(theatre: Theatre) -> None:
    """Somebody joins and leaves again: partitions go to and fro."""
    visit(theatre, lambda: work(theatre))
    work(theatre)


def bereave(theatre: Theatre) -> None:
    """A worker is killed: its successor handles units one by one."""
    _kill_a_worker(theatre)
    work(theatre)


def stumble(theatre: Theatre) -> None:
    """A worker dies, and what its successor tries fails for a reason that passes."""
    _kill_a_worker(theatre)
    once = theatre.folder / "ends" / f"once-{os.urandom(4).hex()}"
    theatre.publish(*theatre.orders(1, deadlock=str(once)))
    work(theatre)


def despair(theatre: Theatre) -> None:
    """A unit ends its own transaction: nothing helps, it is put aside unseen."""
    theatre.publish(*theatre.orders(3, poison=[2], rollback=True))
    work(theatre)


def try_again(theatre: Theatre) -> None:
    """A unit asks for another attempt: it is set aside, and handled a moment later."""
    theatre.publish(*theatre.orders(3, again=True))
    work(theatre)


def cut(theatre: Theatre) -> None:
    """The supervisors lose their control sessions."""
    _end_sessions(theatre, "gapless/supervisor")
    work(theatre)


def depose(theatre: Theatre) -> None:
    """The sequencers lose their sessions."""
    _end_sessions(theatre, "gapless/sequencer")
    work(theatre)


def succeed(theatre: Theatre) -> None:
    """The supervisor that sequences leaves, another one comes."""
    leaving = theatre.sequencing()
    theatre.leave(leaving)
    work(theatre)
    theatre.start()


POINTS: dict[Provoke, tuple[str, ...]] = {
    work: (
        "publish.before",
        "publish.after",
        "sequence.before",
        "sequence.after",
        "sequencer.asleep",
        "step.claimed",
        "step.fetched",
        "step.handled",
        "step.committed",
        "isolate.claimed",
        "isolate.tried",
        "isolate.recorded",
        "isolate.committed",
    ),
    fall_behind: ("step.next",),
    hand_over: (
        "acquire.announced",
        "acquire.locked",
        "acquire.taken",
        "acquire.installed",
        "release.before",
        "release.released",
        "release.after",
        "member.evicted",
        "member.planned",
        "handover.drain",
    ),
    bereave: ("alone.peeked", "alone.recorded", "member.disowned"),
    stumble: ("alone.forgotten",),
    despair: ("give_up.claimed", "give_up.recorded"),
    try_again: (
        "aside.recorded",
        "aside.claimed",
        "aside.handled",
        "aside.committed",
    ),
    cut: ("member.reattached",),
    depose: ("sequencer.active", "sequencer.chunked"),
    succeed: (
        "sequencer.leaving",
        "sequencer.awake",
        "member.locked",
        "member.joined",
        "member.drained",
        "member.left",
    ),
}
# What is not a worker of an exactly-once handler, or its supervisor, has its crash points tried where
# its own tests are: their files, below tests/.
ELSEWHERE = {
    "keyed": "features/dedupe/test_dedupe.py",
    "deliver": "consume/test_deliver.py",
    "condition": "features/filters/test_condition_kills.py",
    "sink": "features/spark/test_sink.py",
    "pipeline": "features/spark/engine/test_pipeline.py",
    "retention": "features/retention/test_kills.py",
    "later": "features/scheduled/test_worker.py",
    "queue": "features/queue/test_py_points.py",
    "compact": "features/spark/test_compact.py",
}
PROVOKED_BY = {point: provoke for provoke, points in POINTS.items() for point in points}


def play(theatre: Theatre, point: str, action: Action) -> str | None:
    """Play a scenario to its end; return what is wrong, None when all is well."""
    theatre.rest()
    theatre.trap(point, action)
    try:
        provoke(theatre, point, action)
        theatre.rest()
    except StuckError as error:
        return str(error)
    found = theatre.check()
    return report(found) if found else None


def provoke(theatre: Theatre, point: str, action: Action) -> None:
    """Do what leads to a point until somebody passes it: on a busy machine once may not be enough."""
    for _ in range(TIMES_MAX):
        PROVOKED_BY[point](theatre)
        theatre.until(
            lambda: theatre.sprung(point, action) or theatre.is_at_rest(),
            f"somebody passes {point}, or all is done",
        )
        # It may have been passed by the last thing that was done: after that all is at rest.
        if traps.sprung(theatre.folder / "traps", point) is not None:
            theatre.until(lambda: theatre.sprung(point, action), f"the {action} at {point}")
            return
    raise StuckError(f"nobody passes {point}, {TIMES_MAX} times\n{theatre.state()}")


def _kill_a_worker(theatre: Theatre) -> None:
    theatre.until(theatre.workers, "somebody works")
    with suppress(ProcessLookupError):
        os.kill(theatre.workers()[-1], signal.SIGKILL)


def _end_sessions(theatre: Theatre, name: str) -> None:
    theatre.value(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        " where datname = current_database() and application_name = %s",
        name,
    )
