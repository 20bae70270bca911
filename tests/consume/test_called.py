"""A call of a handler: what it is told, and what is made of what it raised, returned and left behind.

The session is a real one, in a transaction as a step would have it.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection

import gapless
from gapless.consume.unit import Source, Unit
from gapless.consume.user import call as module
from gapless.consume.user.call import (
    call,
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


def made(function: Any, **options: Any) -> Handler:
    decorate: Any = gapless.handler
    found: Handler = decorate(topic="orders", **options)(function)
    return found


def both(handler: Handler, conn: Connection[Any]) -> Iterator[Any]:
    """Yield what calls a handler with one unit, in a loop and alone."""
    yield lambda: call_each(handler, [(0, UNITS[0])], conn)
    yield lambda: call(handler, UNITS[0], conn)


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
