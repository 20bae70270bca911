"""How many events `gapless tail` reads at once: more while they are small, never too much text."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import get_type_hints

from gapless.log.tail import _SLICE_EVENTS_MAX, Entry, SlicePace

BYTES_MAX = 1_000_000


def entries(count: int, characters: int) -> list[Entry]:
    """Events with payloads of so many characters."""
    names = get_type_hints(Entry)
    filled = dict.fromkeys(names) | {
        "payload": "x" * characters,
        "created_ts": datetime(2026, 1, 1, tzinfo=UTC),
    }
    return [Entry(**filled) for _ in range(count)]  # type: ignore[arg-type]


def test_it_doubles_while_they_are_small_up_to_a_bound() -> None:
    pace = SlicePace(BYTES_MAX)
    seen = []
    for _ in range(20):
        seen.append(pace.events)
        pace.adapt(entries(1, 10))
    assert seen[:4] == [10, 20, 40, 80]
    assert max(seen) == seen[-1] == _SLICE_EVENTS_MAX


def test_it_shrinks_in_proportion_to_one_at_least() -> None:
    pace = SlicePace(BYTES_MAX)
    pace.adapt(entries(10, BYTES_MAX // 5 - 200))
    assert pace.events == 5, "ten were twice as much as they may be"
    for _ in range(5):
        pace.adapt(entries(1, 3 * BYTES_MAX))
    assert pace.events == 1


def test_between_a_quarter_and_the_whole_it_stays() -> None:
    pace = SlicePace(BYTES_MAX)
    for characters in (BYTES_MAX // 40, BYTES_MAX // 20, BYTES_MAX // 10):
        pace.adapt(entries(10, characters - 200))
        assert pace.events == 10


def test_with_less_than_a_quarter_it_doubles() -> None:
    for characters, expected in ((BYTES_MAX // 4 - 201, 20), (BYTES_MAX // 4 - 200, 10)):
        pace = SlicePace(BYTES_MAX)
        pace.adapt(entries(1, characters))
        assert pace.events == expected


def test_headers_are_text_too() -> None:
    pace = SlicePace(BYTES_MAX)
    (one,) = entries(1, BYTES_MAX - 200)
    pace.adapt([replace(one, headers="x" * BYTES_MAX)])
    assert pace.events == 5
