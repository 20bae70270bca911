"""Faults in Python, by mutant: "module:attribute" and what is made of it.

Each takes what stands there and returns what is to stand there instead.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import psycopg

from gapless.consume.job import Job, Redo, Step
from gapless.consume.read.backlog import Backlog
from gapless.consume.read.claim import Wanted
from gapless.consume.read.units import load_units
from gapless.consume.session import allow_commit, transaction
from gapless.consume.unit import Span
from gapless.consume.user.call import call
from gapless.db.connect import connect
from gapless.db.listen import listen
from gapless.failpoints import hit

Make = Callable[[Any], Any]


def offset_first(_: Any) -> Any:
    """The offset is committed, and then the units are handled, in a transaction of their own."""

    def fast(turn: Job, batch_size: int, *_: object) -> Step | Redo:
        with transaction(turn.conn):
            claimed = Backlog().ask(turn.conn, turn.assignment, Wanted(batch_size))
            if claimed.outcome != "claimed":
                return Step(outcome=claimed.outcome)
            allow_commit(turn.conn, claimed.claim_xid, len(claimed.spans))
        hit("step.claimed")
        _handle(turn, claimed)
        hit("step.committed")
        return Step.after(claimed.spans)

    return fast


def effects_first(_: Any) -> Any:
    """The units are handled and committed, and then the offset moves."""

    def fast(turn: Job, batch_size: int, *_: object) -> Step | Redo:
        with contextlib.suppress(psycopg.Rollback), transaction(turn.conn):
            claimed = Backlog().ask(turn.conn, turn.assignment, Wanted(batch_size))
            if claimed.outcome == "claimed":
                raise psycopg.Rollback
        if claimed.outcome != "claimed":
            return Step(outcome=claimed.outcome)
        _handle(turn, claimed)
        hit("step.handled")
        with transaction(turn.conn):
            again = Backlog().ask(
                turn.conn,
                turn.assignment,
                Wanted(claimed.last_offset - claimed.first_offset + 1),
            )
            if again.outcome != "claimed":
                return Step(outcome=again.outcome)
            allow_commit(turn.conn, again.claim_xid, len(again.spans))
        hit("step.committed")
        return Step.after(claimed.spans)

    return fast


def _handle(turn: Job, claimed: Any) -> None:
    with transaction(turn.conn):
        for unit in load_units(turn.conn, turn.assignment.partition, claimed, turn.terms):
            call(turn.handler, unit, turn.conn)


def first_event_only(set_aside: Any) -> Any:
    """Of a failed unit only the first event is put aside."""

    def put_aside(job: Any, span: Span, *rest: Any, **named: Any) -> None:
        set_aside(job, Span(span.first_offset, span.ids[:1]), *rest, **named)

    return put_aside


def forgotten_letter(_: Any) -> Any:
    """A failed unit is passed without a word."""

    def forget(*_: Any, **__: Any) -> None:
        pass

    return forget


def cut_units(split: Any) -> Any:
    """A range ends where it ends, as if a unit did."""

    def cut(first_offset: int, ids: Any, unit_ends: str, *rest: Any) -> Any:
        return split(first_offset, ids, f"{unit_ends[:-1]}1", *rest)

    return cut


def all_is_whole(_: Any) -> Any:
    """Nobody looks whether a range ends with a unit."""
    return lambda *_: None


def goes_on(run: Any) -> Any:
    """A worker that lost its session opens another one, and goes on with what it had."""

    def run_on(worker: Any) -> Any:
        while True:
            try:
                return run(worker)
            except psycopg.OperationalError:
                conn = connect(worker._spec.dsn, role="worker reconnected")
                worker._conn = conn
                object.__setattr__(worker._shared, "conn", conn)
                for channel, leased in worker._leased.items():
                    listen(conn, channel)
                    if leased.driver is not None:
                        object.__setattr__(leased.driver._job, "conn", conn)

    return run_on


def no_key(make: Any) -> Any:
    """A producer tries again as if nothing had been published."""

    def first(*_: Any) -> bool:
        return True

    return first


def nothing_passes(_: Any) -> Any:
    """No error is the environment's: each counts against the unit."""

    def never(_: BaseException) -> bool:
        return False

    return never


PATCHES: dict[str, dict[str, Make]] = {
    "offset committed before the effects": {"gapless.consume.step:_fast": offset_first},
    "effects committed before the offset": {"gapless.consume.step:_fast": effects_first},
    "only the first event of a failed unit dead-lettered": {
        "gapless.consume.isolate:set_aside": first_event_only
    },
    "a failed unit passed without a dead letter": {
        "gapless.consume.isolate:set_aside": forgotten_letter
    },
    "batch not extended to the unit's end": {
        "gapless.consume.read.claim:split": cut_units,
        "gapless.consume.read.claim:_require_whole": all_is_whole,
    },
    "a worker that reconnects and continues": {"gapless.worker.session_loop:take_turns": goes_on},
    "an error that passes counted against the unit": {
        "gapless.consume.user.call:is_passing": nothing_passes,
        "gapless.consume.isolate:is_passing": nothing_passes,
    },
    "a producer that retries without a key": {"chaos.producer:Producer._first": no_key},
}
