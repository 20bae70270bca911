"""The meaning of a unit of flight events: a tally for punctuality, a sighting for positions (pure).

The handlers write these down. No connection is needed here, so that the rules can be tested alone.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

# A flight counts as late from here on: the definition of the US Department of Transportation.
LATE_MIN = 15


class FlightEvent(Protocol):
    """As much of gapless.Event as is needed here."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> str | None: ...
    @property
    def user_id(self) -> str | None: ...
    @property
    def event_type(self) -> str | None: ...
    @property
    def payload(self) -> Any: ...


class BadRecordError(ValueError):
    """A flight that cannot be placed: its unit belongs into the dead letter queue."""


class Tally(NamedTuple):
    """The amounts that one unit adds to the row of its carrier and day."""

    carrier: str | None
    day: str
    scheduled: int
    cancelled: int
    departed: int
    diverted: int
    arrived: int
    arrived_timed: int
    arrived_late: int
    dep_delay_min_sum: int
    arr_delay_min_sum: int


class Sighting(NamedTuple):
    """Where an aircraft was seen, and which event says so."""

    tailnum: str
    at: datetime
    flight: str
    airport: str
    lat: float
    lon: float
    status: str
    c_offset: int


def tally(unit: Iterable[FlightEvent]) -> Tally:
    """Count a unit's events and add up its delays. A unit is one flight, so one carrier and day."""
    events = list(unit)
    kinds = [event.event_type for event in events]
    dep_delays_min = _delays_min(events, "flight.departed")
    arr_delays_min = _delays_min(events, "flight.arrived")
    return Tally(
        carrier=events[0].key,
        day=events[0].payload["day"],
        scheduled=kinds.count("flight.scheduled"),
        cancelled=kinds.count("flight.cancelled"),
        departed=kinds.count("flight.departed"),
        diverted=kinds.count("flight.diverted"),
        arrived=kinds.count("flight.arrived"),
        arrived_timed=len(arr_delays_min),
        arrived_late=sum(delay_min >= LATE_MIN for delay_min in arr_delays_min),
        dep_delay_min_sum=sum(dep_delays_min),
        arr_delay_min_sum=sum(arr_delays_min),
    )


def last_sighting(unit: Iterable[FlightEvent]) -> Sighting | None:
    """Return where the unit leaves its aircraft; None if it never left the gate.

    Raises BadRecordError when the record names no aircraft, or an arrival without its day.
    """
    last = None
    for event in unit:
        if event.user_id is None:
            raise BadRecordError(f"{_title(event)}: no tail number, so no aircraft to place")
        if event.event_type in ("flight.departed", "flight.arrived"):
            last = _sighting(event, event.user_id)
    return last


def _sighting(event: FlightEvent, tailnum: str) -> Sighting:
    seen = event.payload
    if seen["at"] is None:
        raise BadRecordError(
            f"{_title(event)}: arrived at {seen['clock']} on an unknown day (no arrival delay)"
        )
    return Sighting(
        tailnum=tailnum,
        at=datetime.fromisoformat(seen["at"]),
        flight=seen["flight"],
        airport=seen["airport"],
        lat=seen["lat"],
        lon=seen["lon"],
        status=str(event.event_type).removeprefix("flight."),
        c_offset=event.offset,
    )


def _delays_min(events: list[FlightEvent], event_type: str) -> list[int]:
    delays = [event.payload["delay_min"] for event in events if event.event_type == event_type]
    return [delay_min for delay_min in delays if delay_min is not None]


def _title(event: FlightEvent) -> str:
    flight = event.payload
    return f"{flight['flight']} {flight['origin']}-{flight['dest']} of {flight['day']}"
