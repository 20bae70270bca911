"""A call of a handler: what it is told, and what is made of what it raised, returned and left behind.

The session is a real one, in a transaction as a step would have it.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection

import gapless
from gapless.consume.batch import Batch
from gapless.consume.session import TransactionBrokenError
from gapless.consume.unit import Source, Unit
from gapless.consume.user import call as module
from gapless.consume.user.call import (
    ENDED,
    call,
    call_apart,
    call_each,
    call_outside,
    excuse_of,
)
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.failure import Failure, PartlyFailedError, UnitFailedError
from gapless.consume.verdict.wish import Postponed
from gapless.errors import HoleError
from gapless.keys import Partition
from gapless.log.cause import current_origin, handling

PLACE = Partition(group_id="g", topic="orders", topic_id=1, partition_id=0)
CONTINUED = "the handler caught a database error and continued: use conn.transaction() around it"
REFUSED = ValueError("no")
CONFLICT = psycopg.errors.SerializationFailure("conflict")
NO_ROOM = psycopg.errors.DiskFull("no room")  # passing, and of the database's state
NO_TABLE = psycopg.errors.UndefinedTable("no such table")
LOST = HoleError("lost")


def led_to(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def unit(first: int = 1) -> Unit:
    row: Any = (first, None, None, b"1", None, None, None, None, 7, 0, None, None)
    return Unit(Source(PLACE, lambda _: [], 1), first, [row])


UNITS = [unit(1), unit(2), unit(3)]


@pytest.fixture(autouse=True)
def nothing_is_handled() -> Iterator[None]:
    """Whatever an earlier test left."""
    token = handling.set(None)
    yield
    handling.reset(token)


@pytest.fixture
def conn(module_dsn: str) -> Iterator[Connection[Any]]:
    with psycopg.Connection.connect(module_dsn) as made:
        made.execute("select 1")
        yield made
        if not made.closed:
            made.rollback()


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the session is told beside the calls."""
    noted: list[Any] = []
    monkeypatch.setattr(module, "tell", lambda conn, origin: noted.append(("tell", origin)))
    monkeypatch.setattr(module, "restore_settings", lambda conn: noted.append("restore"))
    return noted


def made(function: Any, **options: Any) -> Handler:
    decorate: Any = gapless.handler
    found: Handler = decorate(topic="orders", **options)(function)
    return found


def both(handler: Handler, conn: Connection[Any]) -> Iterator[Any]:
    """Yield what calls a handler with one unit, in a loop and alone."""
    yield lambda: call_each(handler, [(0, UNITS[0])], conn)
    yield lambda: call(handler, UNITS[0], conn)


# -- all is well ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("publishes", "sets"), [(False, False), (True, False), (False, True), (True, True)]
)
def test_each_unit_is_called_and_told_of(
    conn: Connection[Any], story: list[Any], publishes: bool, sets: bool
) -> None:
    def handle(unit: Unit, given: object) -> None:
        assert given is conn
        assert current_origin() is unit
        story.append(unit)

    handler = made(handle)
    handler.habits.publishes, handler.habits.sets = publishes, sets
    call_each(handler, enumerate(UNITS), conn)

    def one(each: Unit) -> list[Any]:
        return [("tell", each)] * publishes + [each] + ["restore"] * sets

    assert story == [part for each in UNITS for part in one(each)]
    assert handling.get() is None
    story.clear()
    call(handler, UNITS[1], conn)
    assert story == one(UNITS[1])
    assert handling.get() is None


def test_of_several_it_is_told_which_failed(conn: Connection[Any], story: list[Any]) -> None:
    def handle(unit: Unit, conn: object) -> None:
        story.append(unit.first_offset)
        if unit.first_offset == bad:
            raise REFUSED

    for bad in (1, 2, 3):
        story.clear()
        with pytest.raises(UnitFailedError) as caught:
            call_each(made(handle), enumerate(UNITS, 5), conn)
        assert (caught.value.error, caught.value.at, story) == (REFUSED, bad + 4, [1, 2, 3][:bad])
        assert handling.get() is None


def test_what_cannot_be_read_is_none_of_theirs(conn: Connection[Any]) -> None:
    def numbered() -> Iterator[tuple[int, Unit]]:
        yield from ()
        raise UnitFailedError(REFUSED)

    with pytest.raises(UnitFailedError) as caught:
        call_each(made(lambda unit, conn: None), numbered(), conn)
    assert caught.value.at == 0


# -- what it raised -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (REFUSED, None), (SystemExit(1), None), (NO_TABLE, None), (NO_ROOM, None), (LOST, LOST),
        (CONFLICT, CONFLICT), (led_to(ValueError("theirs"), CONFLICT), CONFLICT),
        (led_to(ValueError("theirs"), NO_ROOM), None),
        (led_to(gapless.Skip("a wish"), CONFLICT), None),
    ],
)  # fmt: skip
def test_whose_fault_an_error_is(
    conn: Connection[Any], error: BaseException, raised: BaseException | None
) -> None:
    def handle(unit: object, conn: object) -> None:
        raise error

    for attempt in both(made(handle), conn):
        with pytest.raises(BaseException) as caught:  # noqa: PT011 - it is compared below
            attempt()
        if raised is None:
            assert isinstance(caught.value, UnitFailedError)
            assert caught.value.error is error
        else:
            assert caught.value is raised


@pytest.mark.parametrize("interruptible", [True, False])
def test_ctrl_c_is_the_units_fault_in_a_worker_alone(
    conn: Connection[Any], interruptible: bool
) -> None:
    def handle(unit: object, conn: object) -> None:
        raise KeyboardInterrupt

    handler = made(handle)
    handler.habits.interruptible = interruptible
    for attempt in both(handler, conn):
        with pytest.raises(KeyboardInterrupt if interruptible else UnitFailedError):
            attempt()


def test_who_goes_on_after_an_error_of_the_database_is_told(conn: Connection[Any]) -> None:
    def handle(unit: object, conn: Connection[Any]) -> None:
        with pytest.raises(psycopg.errors.DivisionByZero):
            conn.execute("select 1 / 0")
        conn.execute("select 1")

    def quietly(unit: object, conn: Connection[Any]) -> None:
        with pytest.raises(psycopg.errors.DivisionByZero):
            conn.execute("select 1 / 0")

    for attempt in both(made(handle), conn):
        with pytest.raises(UnitFailedError) as caught:
            attempt()
        assert caught.value.error.__notes__ == [CONTINUED]
        conn.rollback()
        conn.execute("select 1")
    for attempt in both(made(quietly), conn):
        with pytest.raises(UnitFailedError) as caught:
            attempt()
        assert isinstance(caught.value.error, TransactionBrokenError)
        assert str(caught.value.error) == CONTINUED
        conn.rollback()
        conn.execute("select 1")
    assert not hasattr(REFUSED, "__notes__")


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_who_ends_its_transaction_is_told(conn: Connection[Any], ends: str) -> None:
    def handle(unit: object, conn: Connection[Any]) -> None:
        getattr(conn, ends)()

    for attempt in both(made(handle), conn):
        with pytest.raises(UnitFailedError) as caught:
            attempt()
        assert isinstance(caught.value.error, TransactionBrokenError)
        assert str(caught.value.error) == ENDED
        conn.execute("select 1")


@pytest.mark.parametrize("raises", [True, False])
def test_who_closes_its_session_has_lost_it(conn: Connection[Any], raises: bool) -> None:
    def handle(unit: object, conn: Connection[Any]) -> None:
        conn.close()
        if raises:
            raise REFUSED

    for attempt in both(made(handle), conn):
        with pytest.raises(psycopg.OperationalError, match="closed the connection"):
            attempt()


def test_a_pipeline_that_is_left_costs_the_session(conn: Connection[Any]) -> None:
    def handle(unit: object, conn: Connection[Any]) -> None:
        conn.pgconn.enter_pipeline_mode()

    with pytest.raises(psycopg.OperationalError, match="left a command running"):
        call_each(made(handle), [(0, UNITS[0])], conn)


@pytest.mark.parametrize("ends", [False, True])
def test_a_unit_that_fails_apart_leaves_the_transaction_or_has_broken_it(
    conn: Connection[Any], ends: bool
) -> None:
    def handle(unit: object, conn: Connection[Any]) -> None:
        if ends:
            conn.execute("rollback")
        raise REFUSED

    apart = call_apart(made(handle), [(7, UNITS[0])], conn)
    if not ends:
        ((at, failed, failure),) = apart
        assert (at, failed, failure.error) == (7, UNITS[0], REFUSED)
        return
    with pytest.raises(TransactionBrokenError) as caught:
        list(apart)
    assert (str(caught.value), caught.value.__cause__, caught.value.at) == (ENDED, REFUSED, 7)


# -- what it returned -----------------------------------------------------------------------------


async def _coroutine() -> None: ...


def _generator() -> Iterator[int]:
    yield 1


async def _async_generator() -> AsyncIterator[int]:
    yield 1


class _Awaitable:
    def __await__(self) -> Iterator[None]:
        yield None


@pytest.mark.parametrize(
    ("result", "name"),
    [(_coroutine, "coroutine"), (_generator, "generator"), (_async_generator, "async_generator"),
     (_Awaitable, "_Awaitable"), (dict, None), (lambda: 5, None)],
)  # fmt: skip
def test_what_nobody_would_run_is_no_result(
    conn: Connection[Any], recwarn: pytest.WarningsRecorder, result: Any, name: str | None
) -> None:
    handler = made(lambda unit, conn: result())
    attempts = [*both(handler, conn)]
    for attempt in attempts:
        if name is None:
            attempt()
            continue
        with pytest.raises(UnitFailedError) as caught:
            attempt()
        assert isinstance(caught.value.error, TypeError)
        assert str(caught.value.error) == (
            f"the handler returned a {name} instead of doing its work"
        )
    outside = call_outside(made(lambda unit: result(), delivery="at-least-once"), UNITS[0])
    assert (outside is None) == (name is None)
    assert not [each for each in recwarn if "never awaited" in str(each.message)]


# -- at least once --------------------------------------------------------------------------------


def _calling(error: BaseException | None, *, is_async: bool, seen: list[Any]) -> Handler:
    def handle(unit: Unit) -> None:
        seen.append((unit, current_origin()))
        if error is not None:
            raise error

    async def handle_async(unit: Unit) -> None:
        handle(unit)

    return made(handle_async if is_async else handle, delivery="at-least-once")


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, None),
        (REFUSED, Failure(error=REFUSED, duration_ms=7000.0)),
        (UnitFailedError(REFUSED), Failure(error=REFUSED, duration_ms=7000.0)),
        (SystemExit("x"), "itself"),
        (
            PartlyFailedError(REFUSED, [4]),
            Failure(error=REFUSED, duration_ms=7000.0, only=frozenset({4})),
        ),
        (
            PartlyFailedError(asked := gapless.Retry("later"), [4]),
            Failure(error=asked, duration_ms=7000.0, only=frozenset({4})),
        ),
        (
            PartlyFailedError(busy := Postponed("later"), [4]),
            Failure(error=busy, attempts=0, duration_ms=7000.0, only=frozenset({4})),
        ),
        (busy, Failure(error=busy, attempts=0, duration_ms=7000.0)),
        (asked, Failure(error=asked, duration_ms=7000.0)),
        (LOST, LOST),
        (CONFLICT, CONFLICT),
        (NO_ROOM, NO_ROOM),
        (led_to(KeyError("theirs"), CONFLICT), CONFLICT),
        (PartlyFailedError(CONFLICT, [4]), CONFLICT),
    ],
)
def test_how_a_call_outside_failed(
    monkeypatch: pytest.MonkeyPatch, error: Any, expected: Any, is_async: bool
) -> None:
    monkeypatch.setattr(module, "perf_counter", iter((100.0, 107.0)).__next__)
    seen: list[Any] = []
    handler = _calling(error, is_async=is_async, seen=seen)
    if isinstance(expected, BaseException):
        with pytest.raises(type(expected)) as caught:
            call_outside(handler, UNITS[0])
        assert caught.value is expected
    elif expected == "itself":
        found = call_outside(handler, UNITS[0])
        assert found == Failure(error=error, duration_ms=7000.0)
    else:
        assert call_outside(handler, UNITS[0]) == expected
    assert seen == [(UNITS[0], UNITS[0])]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("words", None), (REFUSED, None), (CONFLICT, None), (NO_TABLE, NO_TABLE),
        (led_to(KeyError("theirs"), NO_TABLE), NO_TABLE),
        (led_to(gapless.Skip("a wish"), NO_TABLE), None),
    ],
)  # fmt: skip
def test_what_says_that_the_database_is_not_ready(error: Any, expected: Any) -> None:
    assert excuse_of(error, "exactly-once") is expected


def test_a_batch_is_called_as_one(conn: Connection[Any], story: list[Any]) -> None:
    batch = Batch(UNITS)
    handler = made(lambda work, conn: story.append(work), batch=True)
    call(handler, batch, conn)
    assert story == [batch]
