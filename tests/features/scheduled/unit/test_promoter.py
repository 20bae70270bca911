"""Ids and times of events for later, as they may be written; and a sequencer without the feature."""

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from gapless import feature
from gapless.errors import PublishError, UsageError
from gapless.features.scheduled.later import (
    Promoter,
    cancel,
)
from gapless.log.promote import promoter
from gapless.log.record import delay_text, moment_text

NOBODY: Any = None  # instead of a connection


@pytest.mark.parametrize("scheduled_id", [0, -1, 2**63, True, "1", 1.0, None])
def test_what_is_no_number_of_an_event_is_refused(scheduled_id: Any) -> None:
    with pytest.raises(UsageError) as caught:
        cancel(NOBODY, scheduled_id)
    assert str(caught.value) == f"scheduled_id {scheduled_id!r} is no id of an event for later"


@pytest.mark.parametrize("scheduled_id", [1, 2**63 - 1])
def test_what_is_a_number_needs_a_connection(scheduled_id: int) -> None:
    with pytest.raises(UsageError, match="NoneType is not a connection"):
        cancel(NOBODY, scheduled_id)


EAST = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("2030-01-01T09:00Z", "2030-01-01T09:00:00+00:00"),
        ("2030-01-01T09:00+01:00", "2030-01-01T09:00:00+01:00"),
        (datetime(2030, 1, 1, 9, tzinfo=UTC), "2030-01-01T09:00:00+00:00"),
        (datetime(2030, 1, 1, 9, tzinfo=EAST), "2030-01-01T09:00:00+01:00"),
    ],
)
def test_a_moment(value: object, text: str | None) -> None:
    assert moment_text(value) == text


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("soon", "deliver_at 'soon' is no time: write it as 2030-01-01T09:00Z"),
        (5, "deliver_at must be a datetime or text, not int"),
        (
            datetime(2030, 1, 1),  # noqa: DTZ001 - it has no time zone
            "deliver_at 2030-01-01 00:00:00 has no time zone: add one, such as Z or +01:00",
        ),
        (
            "2030-01-01",
            "deliver_at 2030-01-01 has no time zone: add one, such as Z or +01:00",
        ),
    ],
)
def test_what_is_no_moment(value: object, why: str) -> None:
    with pytest.raises(PublishError) as caught:
        moment_text(value)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (0, "0 h 0.000000 s"),
        (3599.5, "0 h 3599.500000 s"),
        (3600, "1 h 0.000000 s"),
        (7201.25, "2 h 1.250000 s"),
        (timedelta(hours=1, microseconds=1), "1 h 0.000001 s"),
        (250_000_000_000, "69444444 h 1600.000000 s"),
    ],
)
def test_a_delay(value: object, text: str | None) -> None:
    assert delay_text(value) == text


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("5", "deliver_in must be seconds or a timedelta, not str"),
        (True, "deliver_in must be seconds or a timedelta, not bool"),
        (-0.001, "deliver_in -0.001 must be from 0 to 250000000000 seconds"),
        (250_000_000_001, "deliver_in 250000000001 must be from 0 to 250000000000 seconds"),
        (math.nan, "deliver_in nan must be from 0 to 250000000000 seconds"),
        (timedelta(-1), "deliver_in -1 day, 0:00:00 must be from 0 to 250000000000 seconds"),
    ],
)
def test_what_is_no_delay(value: object, why: str) -> None:
    with pytest.raises(PublishError) as caught:
        delay_text(value)
    assert str(caught.value) == why


def test_without_the_feature_nothing_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(promoter(), Promoter)
    monkeypatch.setattr(feature, "listed", tuple)
    made = promoter()
    said = (made.holds, made.is_due(), made.wait_s(3), made.rest_s(3))
    assert (*said, made.promote(NOBODY), made.promote_all(NOBODY)) == (False, False, 3, 3, 0, 0)
