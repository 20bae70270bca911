"""What stands between a step and the user's function: types, subclasses of work, habits, other groups' messages."""

import asyncio
import functools
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import psycopg
import pytest

import gapless
from gapless.consume.batch import Batch
from gapless.consume.session import ChangedError, TransactionBrokenError, UnattributedError
from gapless.consume.unit import Source, Unit
from gapless.consume.user.awaited import _in_turn, awaited, is_async
from gapless.consume.user.chain import adapt, handled
from gapless.consume.user.handler import Handler
from gapless.consume.user.typed import TypedUnit, typed
from gapless.consume.verdict.wish import PayloadError
from gapless.features.queue.direct import addressed, is_for_another
from gapless.keys import Partition
from gapless.log.cause import Handling, handling
from gapless.log.fields import NotOfTypeError

PLACE = Partition(group_id="g", topic="orders", topic_id=1, partition_id=3)
CONN: Any = "the session"


@pytest.fixture(autouse=True)
def nothing_is_handled() -> Iterator[None]:
    """Whatever an earlier test left."""
    token = handling.set(None)
    yield
    handling.reset(token)


def row(
    id_: int, payload: bytes | None = b"1", headers: object = None, correlation: UUID | None = None
) -> Any:
    text = None if headers is None else json.dumps(headers).encode()
    return (id_, None, None, payload, text, None, None, None, id_, 0, None, correlation)


def unit(*rows: Any, first: int = 1) -> Unit:
    return Unit(Source(PLACE, lambda _: [], 10), first, list(rows))


def streamed(*rows: Any, first: int = 1) -> Unit:
    """Return a unit that is read one event at a time."""
    by_id = {each[0]: each for each in rows}
    source = Source(PLACE, lambda ids: [by_id[n] for n in ids], 1)
    return Unit(source, first, None, list(by_id))


# -- payloads of a type ---------------------------------------------------------------------------


def doubled(raw: bytes) -> int:
    if raw == b'"no"':
        raise NotOfTypeError("$", "no number")
    return 2 * int(raw)


@pytest.mark.parametrize("made", [unit, streamed])
def test_a_typed_unit_is_the_unit_with_other_payloads(made: Any) -> None:
    plain = made(row(1, b"1"), row(2, b"2"), first=7)
    found = TypedUnit(plain, doubled)
    for _ in range(2):
        assert [(each.offset, each.id, each.payload) for each in found] == [(7, 1, 2), (8, 2, 4)]
    assert len(found) == 2
    for name in ("first_offset", "last_offset", "span", "subscriptions", "source", "is_streamed"):
        assert getattr(found, name) == getattr(plain, name)


@pytest.mark.parametrize("bad", [b'"no"', b"x"])
def test_what_does_not_decode_is_told_with_its_place(bad: bytes) -> None:
    with pytest.raises(PayloadError, match=r"^orders/3@2: (\$: no number|invalid literal)"):
        TypedUnit(unit(row(1), row(2, bad)), doubled)
    later = TypedUnit(streamed(row(1), row(2, bad)), doubled)
    events = iter(later)
    assert next(events).payload == 2
    with pytest.raises(PayloadError, match=r"^orders/3@2: "):
        next(events)


def test_a_typed_function_is_given_units_or_a_batch() -> None:
    story: list[Any] = []

    def handle(work: Any, *conn: object) -> str:
        now = handling.get()
        events = work.events if isinstance(work, Batch) else work
        story.append((type(work), conn, [each.payload for each in events]))
        story.append(now is not None and now.origin is work)
        return "returned"

    call = typed(handle, doubled)
    batch = Batch([unit(row(1)), unit(row(2, b"5"), first=2)])
    assert call(unit(row(1)), CONN) == call(batch, CONN) == "returned"
    with handled(batch):
        assert call(batch) == "returned"
    with handled(batch[0]):
        assert call(batch) == "returned"
    assert story == [
        (TypedUnit, (CONN,), [2]), False, (Batch, (CONN,), [2, 10]), False,
        (Batch, (), [2, 10]), True, (Batch, (), [2, 10]), False,
    ]  # fmt: skip


# -- batches --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("correlations", "key", "correlation"),
    [
        ([1], "g/orders/3@1", 1),
        ([1, 1], "g/orders/3@1..2", 1),
        ([1, 1, 1], "g/orders/3@1..3", 1),
        ([1, 2], "g/orders/3@1..2", None),
        ([1, 1, 2], "g/orders/3@1..3", None),
    ],
)
def test_what_names_a_batch(correlations: list[int], key: str, correlation: int | None) -> None:
    batch = Batch(
        unit(row(n, correlation=UUID(int=each)), first=n) for n, each in enumerate(correlations, 1)
    )
    assert batch.idempotency_key == key
    assert batch.correlation == (None if correlation is None else UUID(int=correlation))


def test_who_iterates_over_its_own_batch_handles_the_unit_at_hand() -> None:
    batch = Batch([unit(row(1)), unit(row(2), first=2)])
    other = Batch(tuple(batch))

    def origins(work: Iterable[Unit]) -> list[object]:
        now = handling.get()
        return [None if now is None else now.origin for _ in work]

    assert origins(batch) == [None, None]
    with handled(batch):
        now = handling.get()
        assert now is not None
        assert origins(batch) == [*tuple(other)]
        assert now.origin is batch
        assert origins(other) == [batch, batch]
        stopped: Any = iter(batch)
        next(stopped)
        at_hand: Any = now.origin
        assert at_hand is batch[0]
        stopped.close()
        assert origins(batch) == [*batch]
    assert handling.get() is None


# -- async functions ------------------------------------------------------------------------------


async def coroutine(*given: object) -> tuple[object, ...]:
    return given


def plain(*given: object) -> tuple[object, ...]:
    return given


class _Callable:
    def __call__(self) -> None: ...


class _AsyncCallable:
    async def __call__(self) -> None: ...


@functools.wraps(coroutine)
def wrapping(*given: object) -> Any:
    return coroutine(*given)


@functools.wraps(plain)
async def wrapping_plain(*given: object) -> Any:
    return plain(*given)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (coroutine, True), (plain, False), (_Callable(), False), (_AsyncCallable(), True),
        (functools.partial(coroutine, 1), True), (functools.partial(plain, 1), False),
        (wrapping, True), (wrapping_plain, True), (_AsyncCallable().__call__, True), (max, False),
    ],
)  # fmt: skip
def test_which_functions_are_awaited(function: Any, expected: bool) -> None:
    assert is_async(function) is expected


@pytest.mark.parametrize("function", [coroutine, plain, wrapping])
def test_what_is_to_be_awaited_is(function: Any) -> None:
    assert asyncio.run(awaited(function, 1, 2)) == (1, 2)


def test_a_slice_is_not_read_while_a_query_is_under_way() -> None:
    shared: Any = SimpleNamespace(lock=asyncio.Lock())
    found: Any = [row(1)]
    fetch = _in_turn(lambda _: found, shared)
    assert fetch([1]) is found
    asyncio.run(shared.lock.acquire())
    with pytest.raises(RuntimeError, match=r"^this unit is too large for memory and is read "):
        fetch([1])


# -- what is learned of a function ----------------------------------------------------------------

OF_SETTINGS = ChangedError("changed")
UNTOLD = UnattributedError("untold")


@pytest.mark.parametrize(
    ("error", "before", "after"),
    [
        (OF_SETTINGS, {}, {"sets": True}),
        (psycopg.errors.QueryCanceled("ours"), {}, {"sets": True}),
        (OF_SETTINGS, {"sets": True}, None),
        (UNTOLD, {}, {"publishes": True}),
        (UNTOLD, {"sets": True}, {"publishes": True, "sets": True}),
        (UNTOLD, {"publishes": True}, {"publishes": True, "defers": True}),
        (UNTOLD, {"publishes": True, "defers": True}, None),
        (TransactionBrokenError("ended"), {}, None),
        (ValueError("no"), {}, None),
    ],
)
def test_what_an_error_teaches(
    error: BaseException, before: dict[str, bool], after: dict[str, bool] | None
) -> None:
    handler: Handler = gapless.handler(topic="orders")(lambda unit, conn: None)
    plain_habits = replace(handler.habits)
    for name in before:
        setattr(handler.habits, name, True)
    assert adapt(handler, error) is (after is not None)
    assert handler.habits == replace(plain_habits, **(before if after is None else after))


def test_what_is_handled_is_told_within_the_block_and_not_behind_it() -> None:
    one, other = unit(row(1)), unit(row(2))
    with handled(one):
        with pytest.raises(ZeroDivisionError), handled(other):
            assert handling.get() == Handling(other)
            raise ZeroDivisionError
        assert handling.get() == Handling(one)
    assert handling.get() is None


# -- messages to one group, in a queue ------------------------------------------------------------


def _returning(unit: Unit, conn: object) -> object:
    return unit, conn


async def _returning_async(unit: Unit, conn: object) -> object:
    return unit, conn


@pytest.mark.parametrize(
    ("headers", "is_called"),
    [
        (None, True), ({}, True), ({"gapless-to-group": "g"}, True),
        ({"gapless-to-group": "other"}, False), ({"gapless-to-group": ""}, False),
        ({"gapless-to-group": None}, True), ({"said": "gapless-to-group"}, True),
    ],
)  # fmt: skip
def test_a_queue_calls_nobody_for_another_groups_message(headers: object, is_called: bool) -> None:
    work = unit(row(1, headers=headers))
    assert is_for_another(work, "g") is not is_called
    options: Any = {"topic": "orders", "mode": "queue", "group": "g"}
    decorate: Any = gapless.handler(**options)
    of_plain = decorate(_returning)
    made = addressed(of_plain, "g")
    assert made.coroutine is None
    assert made.function(work, CONN) == ((work, CONN) if is_called else None)

    of_async = decorate(_returning_async)
    coroutine = addressed(of_async, "g").coroutine
    assert coroutine is not None
    assert asyncio.run(coroutine(work, CONN)) == ((work, CONN) if is_called else None)
