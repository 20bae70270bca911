"""Units whose payloads are values of a type, for a handler that says payload=."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, cast

from gapless.consume.batch import Batch
from gapless.consume.unit import Span, Unit
from gapless.consume.verdict.wish import PayloadError
from gapless.log.cause import handling
from gapless.log.event import Event, MatchedSubscription
from gapless.log.fields import NotOfTypeError
from gapless.log.typed import Decoder


class TypedUnit(Unit[Any]):
    """A unit whose payloads were decoded before its handler was called.

    A unit too large for memory decodes while the handler iterates over it, and may raise there.
    """

    __slots__ = ("_decoder", "_events", "_unit")

    def __init__(self, unit: Unit, decoder: Decoder) -> None:
        super().__init__(unit.source, unit.first_offset, unit._rows, unit._ids)  # noqa: SLF001
        self._unit = unit
        self._decoder = decoder
        self._events = None if self._rows is None else list(self._decoded())

    def __iter__(self) -> Iterator[Event]:
        return self._decoded() if self._events is None else iter(self._events)

    @property
    def last_offset(self) -> int:
        return self._unit.last_offset

    @property
    def subscriptions(self) -> tuple[MatchedSubscription, ...]:
        return self._unit.subscriptions

    @property
    def span(self) -> Span:
        return self._unit.span

    def _decoded(self) -> Iterator[Event]:
        for event in self._unit:
            try:
                event.decode_payload(self._decoder)
            except (NotOfTypeError, ValueError) as error:
                place = f"{event.topic}/{event.partition}@{event.offset}"
                raise PayloadError(f"{place}: {error}") from error
            yield event


def typed(function: Callable[..., Any], decoder: Decoder) -> Callable[..., Any]:
    """Return a function that calls this one with units whose payloads are decoded.

    It raises PayloadError, before the call, for a payload that does not decode.
    """

    @functools.wraps(function)
    def call(work: Unit | Batch, *conn: Any) -> Any:
        if not isinstance(work, Batch):
            return function(TypedUnit(work, decoder), *conn)
        batch = Batch(TypedUnit(unit, decoder) for unit in tuple(work))
        now = handling.get()
        if now is not None and now.origin is cast("Any", work):
            now.origin = batch  # so that its events are published for the unit at hand (I10)
        return function(batch, *conn)

    return call
