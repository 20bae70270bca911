"""The flights demo: the slice, the times in it, and what is published from it."""

import csv
import gzip
import hashlib
import importlib.util
import sys
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "examples" / "flights"
sys.path.insert(0, str(FOLDER.parent))

from flights import make_slice  # noqa: E402 - needs the path above
from flights.flights import SLICE, Flight, events_of, read_flights  # noqa: E402
from flights.queries import schema  # noqa: E402

FLEW = ("flight.scheduled", "flight.departed", "flight.arrived")
CANCELLED = ("flight.scheduled", "flight.cancelled")
DIVERTED = ("flight.scheduled", "flight.departed", "flight.diverted")
CAME_AT_LAST = (*DIVERTED, "flight.arrived")


@pytest.fixture(scope="module")
def flights() -> list[Flight]:
    return list(read_flights())


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    with gzip.open(SLICE, "rt", encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def find(flights: list[Flight], day: str, name: str) -> Flight:
    (found,) = (f for f in flights if f.day.isoformat() == day and f.name == name)
    return found


def test_slice_is_the_one_the_readme_describes() -> None:
    readme = (FOLDER / "data" / "README.md").read_text(encoding="utf-8")
    assert hashlib.sha256(gzip.decompress(SLICE.read_bytes())).hexdigest() in readme
    for column in make_slice.HEADER.strip().split(","):
        assert f"`{column}`" in readme, column


@pytest.mark.long
def test_counts(flights: list[Flight]) -> None:
    assert len(flights) == 6099
    assert len({flight.day for flight in flights}) == 7
    assert len({flight.carrier for flight in flights}) == 15
    shapes = Counter(tuple(e["event_type"] for e in events_of(f)) for f in flights)
    assert shapes == {FLEW: 6043, CANCELLED: 35, DIVERTED: 3, CAME_AT_LAST: 18}
    assert sum(len(shape) * n for shape, n in shapes.items()) == 18_280


def test_limit_takes_the_first_flights(flights: list[Flight]) -> None:
    assert list(read_flights(10)) == flights[:10]
    assert list(read_flights(0)) == []
    assert len(list(read_flights(1_000_000))) == len(flights)


def test_times_agree_with_the_clocks_in_the_file(
    flights: list[Flight], rows: list[dict[str, str]]
) -> None:
    """Schedule and delay are one column each, the clock at the gate another."""

    def shown(moment: datetime | None) -> str:
        return "" if moment is None else f"{moment:%H%M}"

    def recorded(hhmm: str) -> str:
        return hhmm and f"{int(hhmm) % 2400:04}"

    for flight, row in zip(flights, rows, strict=True):
        assert shown(flight.scheduled_departure) == recorded(row["sched_dep_time"])
        assert shown(flight.scheduled_arrival) == recorded(row["sched_arr_time"])
        assert shown(flight.departure) == recorded(row["dep_time"])
        if flight.arrival:
            assert shown(flight.arrival) == recorded(row["arr_time"])


def test_gate_to_gate_is_air_time_and_some_taxiing(flights: list[Flight]) -> None:
    """Wrong days or wrong zones would show as hours."""
    for flight in flights:
        planned = flight.scheduled_arrival - flight.scheduled_departure
        assert timedelta(minutes=45) < planned < timedelta(hours=12), flight
        if flight.departure and flight.arrival:
            assert flight.air_time_min is not None
            taxi = flight.arrival - flight.departure - timedelta(minutes=flight.air_time_min)
            assert timedelta(minutes=5) < taxi < timedelta(hours=2, minutes=30), flight


def test_events_of_a_flight_that_flew(flights: list[Flight]) -> None:
    flight = find(flights, "2013-01-01", "UA1545")
    scheduled, departed, arrived = (event["payload"] for event in events_of(flight))
    assert scheduled["departure"] == "2013-01-01T05:15:00-05:00"
    assert scheduled["arrival"] == "2013-01-01T08:19:00-06:00"
    assert departed == {
        "flight": "UA1545",
        "day": "2013-01-01",
        "origin": "EWR",
        "dest": "IAH",
        "tailnum": "N14228",
        "airport": "EWR",
        "airport_name": "Newark Liberty Intl",
        "lat": 40.6925,
        "lon": -74.168667,
        "at": "2013-01-01T05:17:00-05:00",
        "delay_min": 2,
    }
    assert arrived["at"] == "2013-01-01T08:30:00-06:00"
    assert arrived["clock"] == "08:30"
    assert arrived["delay_min"] == 11
    assert arrived["air_time_min"] == 227
    assert (flight.key, flight.user_id, flight.host_id) == ("UA", "N14228", "EWR")


def test_the_clock_at_2400_is_the_next_midnight(
    flights: list[Flight], rows: list[dict[str, str]]
) -> None:
    at_midnight = [f for f, row in zip(flights, rows, strict=True) if row["arr_time"] == "2400"]
    assert len(at_midnight) == 2
    for flight in at_midnight:
        assert flight.arrival_clock == "00:00"
        assert flight.arrival is not None
        assert flight.arrival.date() == flight.day + timedelta(days=1)


def test_the_folder_also_imports_under_its_name_in_the_wheel() -> None:
    name = "gapless_flights_as_in_the_wheel"
    spec = importlib.util.spec_from_file_location(
        name, FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
    for module in ("flights", "handlers", "truth", "verify"):
        importlib.import_module(f"{name}.{module}")
    assert schema().startswith(b"-- The tables of the flights demo")
