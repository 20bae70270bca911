"""The flights demo: what the handlers make of a unit, and the truth they are compared with."""

import json
import random
import re
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[3] / "examples" / "flights"
sys.path.insert(0, str(FOLDER.parent))

from flights import effects, truth  # noqa: E402 - needs the path above
from flights.flights import Flight, events_of, read_flights  # noqa: E402


@dataclass(frozen=True)
class PublishedEvent:
    """An event as a handler sees it: its payload has been through JSON."""

    offset: int
    key: str | None
    user_id: str | None
    event_type: str | None
    payload: Any


def unit_of(flight: Flight, first_offset: int = 1) -> list[PublishedEvent]:
    return [
        PublishedEvent(
            first_offset + n,
            flight.key,
            flight.user_id,
            event["event_type"],
            json.loads(json.dumps(event["payload"])),
        )
        for n, event in enumerate(events_of(flight))
    ]


@pytest.fixture(scope="module")
def flights() -> list[Flight]:
    return list(read_flights())


def find(flights: list[Flight], day: str, name: str) -> Flight:
    (found,) = (f for f in flights if f.day.isoformat() == day and f.name == name)
    return found


@pytest.mark.long
def test_a_reason_names_the_flight(flights: list[Flight]) -> None:
    with pytest.raises(effects.BadRecordError) as unplaced:
        effects.last_sighting(unit_of(find(flights, "2013-01-01", "EV3806")))
    assert str(unplaced.value) == (
        "EV3806 EWR-STL of 2013-01-01: arrived at 20:02 on an unknown day (no arrival delay)"
    )
    with pytest.raises(effects.BadRecordError, match="AA133 JFK-LAX of 2013-01-02: no tail number"):
        effects.last_sighting(unit_of(find(flights, "2013-01-02", "AA133")))


def test_truth_has_the_figures_of_the_readme() -> None:
    whole = truth.compute()
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert (whole.flights, whole.events, whole.aircraft) == (6099, 18_280, 2048)
    assert (len(whole.punctuality), len(whole.positions)) == (102, 2044)
    assert len(whole.dead_letters) == 26
    assert sum(letter.events for letter in whole.dead_letters) == 88
    assert whole.handled == [("positions", 18_192, 18_192), ("punctuality", 18_280, 18_280)]
    for figure in ("6 099", "18 280", "2 048", "2 044", "102", "26", "88", "18 192"):
        assert figure in readme, figure


@pytest.mark.few(3)
@pytest.mark.parametrize("limit", [None, 0, 1, 460, 1500])
def test_handlers_reach_the_truth_in_any_order(flights: list[Flight], limit: int | None) -> None:
    chosen = flights[:limit]
    random.Random(limit).shuffle(chosen)
    tables = replay(chosen)
    expected = truth.compute(limit)
    assert expected.flights == len(chosen)
    assert truth.compare(expected.punctuality, tables.punctuality(), 2) == []
    assert truth.compare(expected.positions, tables.positions(), 1) == []
    assert truth.compare(expected.dead_letters, tables.dead_letters, 4) == []
    handled = [(group, n, n) for group, n in tables.handled.items()]
    assert truth.compare(expected.handled, handled, 1) == []


class Tables:
    """What the handlers' statements leave behind, in memory."""

    def __init__(self) -> None:
        self.sums: dict[tuple[Any, ...], Counter[str]] = {}
        self.newest: dict[str, effects.Sighting] = {}
        self.dead_letters: list[tuple[object, ...]] = []
        self.handled: Counter[str] = Counter()

    def punctuality(self) -> list[tuple[object, ...]]:
        fields = truth.PunctualityRow._fields[2:]
        return [(*key, *(row[name] for name in fields)) for key, row in self.sums.items()]

    def positions(self) -> list[tuple[object, ...]]:
        return [tuple(seen)[:7] for seen in self.newest.values()]


def replay(flights: list[Flight]) -> Tables:
    tables = Tables()
    offset = 1
    for flight in flights:
        unit = unit_of(flight, offset)
        offset += len(unit)
        counted = effects.tally(unit)._asdict()
        key = counted.pop("carrier"), datetime.fromisoformat(counted.pop("day")).date()
        tables.sums.setdefault(key, Counter()).update(counted)
        tables.handled["punctuality"] += len(unit)
        try:
            seen = effects.last_sighting(unit)
        except effects.BadRecordError:
            letter = ("positions", flight.day, flight.name, flight.host_id, len(unit))
            tables.dead_letters.append(letter)
            continue
        tables.handled["positions"] += len(unit)
        if seen is not None:
            known = tables.newest.get(seen.tailnum)
            if known is None or known[1:4] < seen[1:4]:
                tables.newest[seen.tailnum] = seen
    return tables


def test_truth_shares_no_code_with_what_it_judges() -> None:
    source = (FOLDER / "truth.py").read_text(encoding="utf-8")
    imported = re.findall(r"^\s*(?:from|import) (\S+)", source, re.MULTILINE)
    assert not [name for name in imported if name.startswith((".", "flights", "gapless"))]


def test_compare_finds_every_kind_of_difference() -> None:
    expected = [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
    assert truth.compare(expected, reversed(expected)) == []
    actual = [("a", 1), ("b", 9), ("d", 4), ("d", 4), ("e", 5)]
    assert [str(difference) for difference in truth.compare(expected, actual)] == [
        "b: expected 2, found 9",
        "c: expected 3, found nothing",
        "d: expected 4, found 4 and 4",
        "e: expected nothing, found 5",
    ]
