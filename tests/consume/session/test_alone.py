"""A unit under a savepoint of its own, in a real database: what fails leaves nothing, and what was before it stays."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import Connection

import gapless
from gapless.consume.batch import Batch
from gapless.consume.session import TransactionBrokenError, run, transaction
from gapless.consume.unit import Source, Unit
from gapless.consume.user.call import call_apart
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.failure import Failure
from gapless.keys import Partition
from support.step_session import StepSession

PLACE = Partition(group_id="g", topic="orders", topic_id=1, partition_id=3)
REFUSED = ValueError("no")
ROW: Any = (7, None, None, b"1", None, None, None, None, 1, 0, None, None)
UNIT: Unit[Any] = Unit(Source(PLACE, lambda _: [], 10), 11, [ROW])
WRITE = "insert into public.effect values (%s)"
Work = Callable[[Any, Connection[Any]], None]


def tried(session: StepSession, work: Work, *, batch: bool = False) -> BaseException | str | None:
    """Write 1, handle the unit, write 9, and commit."""
    options: Any = {"topic": "orders", "batch": batch}
    handler: Handler = gapless.handler(**options)(work)
    failed: list[tuple[int, Unit, Failure]] = []
    with transaction(session.conn):
        run(session.conn, "settings")
        session.write(1)
        failed += call_apart(handler, [(4, UNIT)], session.conn)
        session.write(9)
    if not failed:
        return None
    ((at, unit, failure),) = failed
    assert (at, unit) == (4, UNIT)
    return failure.error


def writes(number: int) -> Work:
    def work(unit: Any, conn: Connection[Any]) -> None:
        conn.execute(WRITE, [number])

    return work


@pytest.mark.parametrize("batch", [False, True])
def test_what_goes_well_stays(session: StepSession, batch: bool) -> None:
    seen: list[Any] = []

    def work(given: Any, conn: Connection[Any]) -> None:
        seen.append(given)
        conn.execute(WRITE, [2])

    assert tried(session, work, batch=batch) is None
    assert session.effects == [1, 2, 9]
    if batch:
        assert isinstance(seen[0], Batch)
        assert list(seen[0]) == [UNIT]
    else:
        assert seen == [UNIT]


def test_what_raises_leaves_nothing_of_it(session: StepSession) -> None:
    def work(unit: Any, conn: Connection[Any]) -> None:
        conn.execute(WRITE, [2])
        raise REFUSED

    assert tried(session, work) is REFUSED
    assert session.effects == [1, 9]


@pytest.mark.parametrize("statement", ["select 1 / 0", "insert into public.effect values (1)"])
def test_what_the_database_refuses_leaves_nothing_of_it(
    session: StepSession, statement: str
) -> None:
    """At once, or what it would refuse at COMMIT."""

    def work(unit: Any, conn: Connection[Any]) -> None:
        conn.execute(WRITE, [2])
        conn.execute(statement.encode())

    error = tried(session, work)
    kind = psycopg.errors.DivisionByZero if "/" in statement else psycopg.errors.UniqueViolation
    assert isinstance(error, kind)
    assert session.effects == [1, 9]


@pytest.mark.parametrize(
    "error", [psycopg.errors.SerializationFailure("x"), psycopg.errors.DeadlockDetected("x")]
)
def test_what_passes_is_not_the_unit_s_fault(session: StepSession, error: psycopg.Error) -> None:
    def work(unit: Any, conn: Connection[Any]) -> None:
        raise error

    with pytest.raises(psycopg.Error) as caught:
        tried(session, work)
    assert caught.value is error
    assert (session.effects, session.is_idle) == ([], True)


def test_a_conflict_at_the_check_is_not_the_unit_s_fault(session: StepSession) -> None:
    session.looker.execute(
        "create or replace function public.late() returns trigger language plpgsql as"
        " $$ begin raise exception 'late' using errcode = '40001'; end $$;"
        "create constraint trigger late after insert on public.effect deferrable initially deferred"
        " for each row when (new.n = 7) execute function public.late()"
    )
    try:
        with pytest.raises(psycopg.errors.SerializationFailure):
            tried(session, writes(7))
    finally:
        session.looker.execute("drop trigger late on public.effect")
    assert (session.effects, session.is_idle) == ([], True)


def test_who_ends_the_transaction_is_found_out(session: StepSession) -> None:
    def work(unit: Any, conn: Connection[Any]) -> None:
        conn.execute("rollback")
        raise REFUSED

    with pytest.raises((TransactionBrokenError, psycopg.OperationalError)) as caught:
        tried(session, work)
    if isinstance(caught.value, TransactionBrokenError):
        assert caught.value.at == 4
    assert session.effects == []


def test_what_the_database_refuses_is_raised(session: StepSession) -> None:
    with pytest.raises(psycopg.errors.InvalidTextRepresentation), transaction(session.conn):
        run(session.conn, "tell_cause", {"cause": "c", "correlation": "no UUID"})
    assert session.is_idle
