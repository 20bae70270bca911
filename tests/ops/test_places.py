"""Places and points: read, written, refused."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from gapless.errors import UsageError
from gapless.ops import EARLIEST, GroupPlace, Point


@pytest.mark.parametrize("text", ["billing", "billing/orders", "billing/orders/3", "b/orders/3@17"])
def test_a_place_is_printed_as_it_is_read(text: str) -> None:
    assert str(GroupPlace.parse(text)) == text


def test_a_slash_before_the_offset_is_taken() -> None:
    place = GroupPlace(group="b", topic="orders", partition=3, offset=17)
    assert GroupPlace.parse("b/orders/3/17") == GroupPlace.parse_event("b/orders/3@17") == place


def test_an_offset_needs_its_partition() -> None:
    with pytest.raises(UsageError, match="of which partition"):
        GroupPlace(group="b", topic="orders", offset=17)
    with pytest.raises(UsageError, match="is not GROUP/TOPIC/PARTITION@OFFSET"):
        _ = GroupPlace.parse("b/orders/3").event


def test_points() -> None:
    assert Point.parse("earliest") == EARLIEST
    assert Point.parse("17") == Point(offset=17)
    noon = Point(time=datetime(2026, 3, 1, 12, tzinfo=UTC))
    assert Point.parse("2026-03-01T12:00") == Point.parse("2026-03-01T13:00+01:00") == noon
    assert [str(each) for each in (EARLIEST, Point(offset=3), noon)] == [
        "earliest",
        "3",
        "2026-03-01T12:00:00.000Z",
    ]
    with pytest.raises(UsageError, match="is not earliest, latest, an offset, or a time"):
        Point.parse("noon")


def test_a_point_is_one_thing() -> None:
    for said in ({}, {"end": "latest", "offset": 3}, {"offset": 3, "transaction": uuid4()}):
        with pytest.raises(UsageError, match="a point is one of these"):
            Point(**said)
    with pytest.raises(UsageError, match="earliest, latest or latest-per-key"):
        Point(end="newest")
