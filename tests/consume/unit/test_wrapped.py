"""What stands between a step and the function of a user: batches, async functions, habits."""

import functools
import json
from typing import Any
from uuid import UUID

import pytest

from gapless.consume.batch import Batch
from gapless.consume.unit import Source, Unit
from gapless.consume.user.awaited import is_async
from gapless.keys import Partition

PLACE = Partition(group_id="g", topic="orders", topic_id=1, partition_id=3)


def row(
    id_: int, payload: bytes | None = b"1", headers: object = None, correlation: UUID | None = None
) -> Any:
    text = None if headers is None else json.dumps(headers).encode()
    return (id_, None, None, payload, text, None, None, None, id_, 0, None, correlation)


def unit(*rows: Any, first: int = 1) -> Unit:
    return Unit(Source(PLACE, lambda _: [], 10), first, list(rows))


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


# -- what is learned of a function ----------------------------------------------------------------
