"""The rows that the tables must hold in the end, computed straight from the file.

Shares no code with flights.py, effects.py and the handlers: plain loops over the raw columns. Even
the times are found another way. There, an arrival is the scheduled one plus its delay; here, it is
the first moment after departure at which the clock at the destination shows the recorded time.
"""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

FILE = Path(__file__).with_name("data") / "flights.csv.gz"
DAY_MIN = 24 * 60

Row = dict[str, str]
Key = tuple[object, ...]
Values = tuple[object, ...]


class PunctualityRow(NamedTuple):
    """A row of flights_demo.punctuality; the columns of the query punctuality_rows."""

    carrier: str
    day: date
    scheduled: int
    cancelled: int
    departed: int
    diverted: int
    arrived: int
    arrived_timed: int
    arrived_late: int
    dep_delay_min_sum: int
    arr_delay_min_sum: int


class PositionRow(NamedTuple):
    """A row of flights_demo.positions; the columns of the query position_rows."""

    tailnum: str
    at: datetime
    flight: str
    airport: str
    lat: float
    lon: float
    status: str


class DeadLetterRow(NamedTuple):
    """A refused flight; the columns of the query dead_letter_rows."""

    group_id: str
    day: date
    flight: str
    origin: str
    events: int


class HandledRow(NamedTuple):
    """The count of a group; the columns of the query handled_rows."""

    group_id: str
    events: int
    offsets: int


@dataclass(frozen=True, slots=True)
class Truth:
    """The figures that a run over the first `flights` flights of the file must end with."""

    flights: int
    events: int
    aircraft: int
    punctuality: list[PunctualityRow]
    positions: list[PositionRow]
    dead_letters: list[DeadLetterRow]
    handled: list[HandledRow]


def compute(limit: int | None = None) -> Truth:
    """Compute the truth about the first `limit` flights, or about all."""
    with gzip.open(FILE, "rt", encoding="utf-8", newline="") as lines:
        rows = list(islice(csv.DictReader(lines), limit))
    events = sum(count_events(row) for row in rows)
    dead_letters = find_refused(rows)
    refused_events = sum(letter.events for letter in dead_letters)
    handled = {"positions": events - refused_events, "punctuality": events}
    return Truth(
        flights=len(rows),
        events=events,
        aircraft=len({row["tailnum"] for row in rows} - {""}),
        punctuality=count_punctuality(rows),
        positions=find_positions(rows),
        dead_letters=dead_letters,
        handled=[HandledRow(group, count, count) for group, count in handled.items() if count],
    )


def count_events(row: Row) -> int:
    """Count scheduled; cancelled, or departed; diverted; arrived."""
    diverted = row["dep_time"] != "" and row["arr_delay_min"] == ""
    return 2 + diverted + (row["arr_time"] != "")


def is_refused(row: Row) -> bool:
    """Say whether the positions group refuses it: no aircraft, or an arrival without its day."""
    undated = row["arr_time"] != "" and row["arr_delay_min"] == ""
    return row["tailnum"] == "" or undated


def find_refused(rows: list[Row]) -> list[DeadLetterRow]:
    """List the refused flights in the order of the query's result."""
    letters = []
    for row in rows:
        if is_refused(row):
            day, flight = date.fromisoformat(row["day"]), row["carrier"] + row["flight"]
            letters.append(
                DeadLetterRow("positions", day, flight, row["origin"], count_events(row))
            )
    return sorted(letters)


def count_punctuality(rows: list[Row]) -> list[PunctualityRow]:
    """Count for each carrier and day, one column after the other."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["carrier"], row["day"]), []).append(row)
    result = []
    for (carrier, day), flights in sorted(groups.items()):
        left = [row for row in flights if row["dep_time"]]
        dep_delays_min = [int(row["dep_delay_min"]) for row in left]
        arr_delays_min = [int(row["arr_delay_min"]) for row in left if row["arr_delay_min"]]
        result.append(
            PunctualityRow(
                carrier=carrier,
                day=date.fromisoformat(day),
                scheduled=len(flights),
                cancelled=len(flights) - len(left),
                departed=len(left),
                diverted=len(left) - len(arr_delays_min),
                arrived=sum(row["arr_time"] != "" for row in left),
                arrived_timed=len(arr_delays_min),
                arrived_late=len([minutes for minutes in arr_delays_min if minutes >= 15]),
                dep_delay_min_sum=sum(dep_delays_min),
                arr_delay_min_sum=sum(arr_delays_min),
            )
        )
    return result


def find_positions(rows: list[Row]) -> list[PositionRow]:
    """Find for each aircraft the newest place among the flights that are not refused."""
    newest: dict[str, PositionRow] = {}
    for row in rows:
        if is_refused(row) or row["dep_time"] == "":
            continue
        for seen in places(row):
            known = newest.get(seen.tailnum)
            if known is None or seen[1:4] > known[1:4]:  # at, flight, airport
                newest[seen.tailnum] = seen
    return [newest[tailnum] for tailnum in sorted(newest)]


def places(row: Row) -> list[PositionRow]:
    """Return where the flight's aircraft was seen: at its origin, and at its destination."""
    origin_offset_min, dest_offset_min = (
        int(row[f"{end}_utc_offset_min"]) for end in ("origin", "dest")
    )
    # Minutes in UTC since midnight UTC of the day of the flight. A delay may carry over midnight.
    departed_min = minutes(row["sched_dep_time"]) - origin_offset_min + int(row["dep_delay_min"])
    seen = [place(row, "origin", departed_min, "departed")]
    if row["arr_time"]:
        waited_min = (minutes(row["arr_time"]) - dest_offset_min - departed_min) % DAY_MIN
        seen.append(place(row, "dest", departed_min + waited_min, "arrived"))
    return seen


def place(row: Row, end: str, at_min: int, status: str) -> PositionRow:
    """Make the row for one end of a flight."""
    return PositionRow(
        tailnum=row["tailnum"],
        at=datetime.fromisoformat(row["day"]).replace(tzinfo=UTC) + timedelta(minutes=at_min),
        flight=row["carrier"] + row["flight"],
        airport=row[end],
        lat=float(row[f"{end}_lat"]),
        lon=float(row[f"{end}_lon"]),
        status=status,
    )


def minutes(hhmm: str) -> int:
    """Minutes since midnight of a clock time such as 517 or 2400."""
    return int(hhmm) // 100 * 60 + int(hhmm) % 100


class Difference(NamedTuple):
    """A key whose rows do not agree; a side that has none is empty."""

    key: Key
    expected: list[Values]
    actual: list[Values]

    def __str__(self) -> str:
        """Say it in one line."""
        name = " ".join(map(str, self.key))
        return f"{name}: expected {_say(self.expected)}, found {_say(self.actual)}"


def compare(
    expected: Iterable[tuple[object, ...]],
    actual: Iterable[tuple[object, ...]],
    key_columns: int = 1,
) -> list[Difference]:
    """Return every key whose rows differ, in order; the first `key_columns` columns are the key.

    The order of the rows does not matter, but how often a row occurs does.
    """
    wanted, found = _by_key(expected, key_columns), _by_key(actual, key_columns)
    return [
        Difference(key, wanted.get(key, []), found.get(key, []))
        for key in sorted(wanted.keys() | found.keys(), key=str)
        if Counter(wanted.get(key, [])) != Counter(found.get(key, []))
    ]


def _by_key(rows: Iterable[tuple[object, ...]], key_columns: int) -> dict[Key, list[Values]]:
    grouped: dict[Key, list[Values]] = {}
    for row in rows:
        grouped.setdefault(tuple(row[:key_columns]), []).append(tuple(row[key_columns:]))
    return grouped


def _say(rows: list[Values]) -> str:
    """Write rows down for people: "nothing", or their values."""
    return " and ".join(" ".join(map(str, row)) for row in rows) or "nothing"
