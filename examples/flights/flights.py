"""Flights as the file has them, and the events that each of them publishes.

A flight is one business transaction: all its events carry its transaction_id and its carrier as
key, so they are one unit. The events of a flight follow from its record:

    flew as planned         flight.scheduled  flight.departed  flight.arrived
    cancelled               flight.scheduled  flight.cancelled
    diverted                flight.scheduled  flight.departed  flight.diverted
    diverted, came at last  flight.scheduled  flight.departed  flight.diverted  flight.arrived

The source writes an arrival as a time on a clock; its day follows from the schedule and the delay.
It gives no delay for diverted flights, so the day of such an arrival is unknown: `at` is null.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict
from uuid import NAMESPACE_URL, UUID, uuid5

if TYPE_CHECKING:
    from collections.abc import Iterator

SLICE = Path(__file__).with_name("data") / "flights.csv.gz"

Row = dict[str, str]


class FlightEvent(TypedDict):
    """A published event, without the key and the ids, which are the flight's."""

    event_type: str
    payload: dict[str, object]


@dataclass(frozen=True, slots=True)
class Airport:
    """A place; `zone` is its offset from UTC during the slice."""

    code: str
    name: str
    lat: float
    lon: float
    zone: timezone


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """One record of the file; every time is local to the airport where it was taken."""

    day: date
    carrier: str
    number: int
    tailnum: str | None
    origin: Airport
    dest: Airport
    scheduled_departure: datetime
    scheduled_arrival: datetime
    departure: datetime | None  # None: cancelled
    dep_delay_min: int | None
    arrival: datetime | None  # None: did not arrive, or on a day that was not recorded
    arrival_clock: str | None  # "19:34", known even where the day is not
    arr_delay_min: int | None
    air_time_min: int | None
    distance_mi: int

    @property
    def name(self) -> str:
        """Carrier and number, as on a ticket: UA1545."""
        return f"{self.carrier}{self.number}"

    @property
    def key(self) -> str:
        """Orders events by carrier: flights of one carrier share a partition."""
        return self.carrier

    @property
    def user_id(self) -> str | None:
        """The aircraft, if the record names one."""
        return self.tailnum

    @property
    def host_id(self) -> str:
        """The airport at whose desk the flight is booked: where it leaves from."""
        return self.origin.code

    @property
    def transaction_id(self) -> UUID:
        """Stable: publishing the same file twice uses the same ids.

        In the whole year no two flights share day, carrier, number and origin.
        """
        return uuid5(NAMESPACE_URL, f"gapless:flights/{self.day}/{self.name}/{self.origin.code}")

    @property
    def diverted(self) -> bool:
        """Left, but has no arrival delay: the source leaves it out for diverted flights alone."""
        return self.departure is not None and self.arr_delay_min is None


def read_flights(limit: int | None = None) -> Iterator[Flight]:
    """Yield the flights in the order in which they were scheduled to leave, at most `limit`."""
    with gzip.open(SLICE, "rt", encoding="utf-8", newline="") as lines:
        for row in islice(csv.DictReader(lines), limit):
            yield _flight(row)


def events_of(flight: Flight) -> list[FlightEvent]:
    """Return the flight's two to four events in the order in which they happened."""
    events = [_scheduled(flight)]
    if flight.departure is None:
        events.append(_event(flight, "flight.cancelled"))
        return events
    events.append(
        _event(
            flight,
            "flight.departed",
            **_place(flight.origin),
            at=flight.departure.isoformat(),
            delay_min=flight.dep_delay_min,
        )
    )
    if flight.diverted:
        events.append(_event(flight, "flight.diverted"))
    if flight.arrival_clock is not None:
        events.append(_arrived(flight))
    return events


def _scheduled(flight: Flight) -> FlightEvent:
    return _event(
        flight,
        "flight.scheduled",
        departure=flight.scheduled_departure.isoformat(),
        arrival=flight.scheduled_arrival.isoformat(),
        distance_mi=flight.distance_mi,
    )


def _arrived(flight: Flight) -> FlightEvent:
    return _event(
        flight,
        "flight.arrived",
        **_place(flight.dest),
        at=flight.arrival.isoformat() if flight.arrival else None,
        clock=flight.arrival_clock,
        delay_min=flight.arr_delay_min,
        air_time_min=flight.air_time_min,
    )


def _event(flight: Flight, event_type: str, **fields: object) -> FlightEvent:
    """Begin every payload with what tells one flight from another."""
    identity: dict[str, object] = {
        "flight": flight.name,
        "day": flight.day.isoformat(),
        "origin": flight.origin.code,
        "dest": flight.dest.code,
        "tailnum": flight.tailnum,
    }
    return {"event_type": event_type, "payload": identity | fields}


def _place(airport: Airport) -> dict[str, object]:
    return {
        "airport": airport.code,
        "airport_name": airport.name,
        "lat": airport.lat,
        "lon": airport.lon,
    }


def _flight(row: Row) -> Flight:
    origin, dest = _airport(row, "origin"), _airport(row, "dest")
    day = date.fromisoformat(row["day"])
    midnight = datetime(day.year, day.month, day.day, tzinfo=origin.zone)
    scheduled_departure = midnight + _clock(row["sched_dep_time"])
    scheduled_arrival = _next_at(scheduled_departure.astimezone(dest.zone), row["sched_arr_time"])
    dep_delay_min, arr_delay_min = _number(row["dep_delay_min"]), _number(row["arr_delay_min"])
    return Flight(
        day=day,
        carrier=row["carrier"],
        number=int(row["flight"]),
        tailnum=row["tailnum"] or None,
        origin=origin,
        dest=dest,
        scheduled_departure=scheduled_departure,
        scheduled_arrival=scheduled_arrival,
        departure=_later(scheduled_departure, dep_delay_min),
        dep_delay_min=dep_delay_min,
        arrival=_later(scheduled_arrival, arr_delay_min),
        arrival_clock=_clock_text(row["arr_time"]),
        arr_delay_min=arr_delay_min,
        air_time_min=_number(row["air_time_min"]),
        distance_mi=int(row["distance_mi"]),
    )


def _airport(row: Row, end: str) -> Airport:
    offset = timedelta(minutes=int(row[f"{end}_utc_offset_min"]))
    lat, lon = float(row[f"{end}_lat"]), float(row[f"{end}_lon"])
    return Airport(row[end], row[f"{end}_name"], lat, lon, timezone(offset))


def _number(text: str) -> int | None:
    return int(text) if text else None


def _clock(hhmm: str) -> timedelta:
    """Time since midnight of "517" or "2400" (which is the next midnight)."""
    hours, minutes = divmod(int(hhmm), 100)
    return timedelta(hours=hours, minutes=minutes)


def _clock_text(hhmm: str) -> str | None:
    if not hhmm:
        return None
    hours, minutes = divmod(int(hhmm), 100)
    return f"{hours % 24:02}:{minutes:02}"


def _next_at(after: datetime, hhmm: str) -> datetime:
    """Return the first moment after `after` at which its clock shows `hhmm`.

    The schedule names no day of arrival; no flight here is planned for as long as a day.
    """
    moment = after.replace(hour=0, minute=0) + _clock(hhmm)
    while moment <= after:
        moment += timedelta(days=1)
    return moment


def _later(scheduled: datetime, delay_min: int | None) -> datetime | None:
    return None if delay_min is None else scheduled + timedelta(minutes=delay_min)
