"""The signatures of handler functions, for type checkers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from psycopg import AsyncConnection, Connection

from gapless.consume.batch import Batch
from gapless.consume.unit import Unit

T = TypeVar("T")
W_co = TypeVar("W_co", covariant=True)


class _Validates(Protocol[W_co]):
    """A TypeAdapter of pydantic."""

    def validate_json(self, data: bytes, /) -> W_co: ...


class _Decodes(Protocol[W_co]):
    """A Decoder of msgspec."""

    def decode(self, buf: bytes, /) -> W_co: ...


Payload = type[T] | _Validates[T] | _Decodes[T]
_Writes = Callable[[T, Connection[Any]], object]
_WritesAsync = Callable[[T, AsyncConnection[Any]], Awaitable[object]]
UnitFunction = _Writes[Unit[T]] | _WritesAsync[Unit[T]]
BatchFunction = _Writes[Batch[T]] | _WritesAsync[Batch[T]]
CallFunction = Callable[[Unit[T]], object]
