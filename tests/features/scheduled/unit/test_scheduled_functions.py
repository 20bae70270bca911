"""Functions that are called when they are due: what may be declared, and what a call of theirs does."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import gapless
from gapless.consume.unit import Source, Unit
from gapless.features.scheduled.schedules import TOPIC, Schedule
from gapless.keys import Partition
from gapless.resources import resource

DUE = datetime(2026, 11, 27, 3, 0, tzinfo=UTC)
PLACE = Partition(group_id="schedule.nightly", topic=TOPIC, topic_id=1, partition_id=0)


def nightly(due: datetime, conn: object) -> Any: ...


def unit(*headers: dict[str, str] | None) -> Unit:
    """Return a unit of events with these headers, as the schedules of a topic publish them."""
    rows: list[Any] = [
        (n, None, None, None, None if each is None else json.dumps(each).encode(), None, None, None,
         7, 0, None, None)
        for n, each in enumerate(headers)
    ]  # fmt: skip
    return Unit(Source(PLACE, lambda _: [], 10), 1, rows)


def due(name: str, at: datetime = DUE) -> dict[str, str]:
    return {"gapless-schedule": name, "gapless-due": at.isoformat()}


# -- what is declared -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cron", "options", "declared"),
    [
        ("@daily", {}, {"cron": "@daily"}),
        ("0 3 * * *", {"zone": "Asia/Tokyo"}, {"cron": "0 3 * * *", "zone": "Asia/Tokyo"}),
        (None, {"every": "15 minutes"}, {"every": "15 minutes"}),
        (None, {"every": timedelta(minutes=2, microseconds=5)}, {"every": "120.000005 s"}),
        ("@daily", {"missed": "all"}, {"cron": "@daily", "missed": "all"}),
        ("@daily", {"name": "other"}, {"cron": "@daily", "name": "other"}),
        ("@daily", {"name": "a.B-1_" + "n" * 194}, {"cron": "@daily", "name": "a.B-1_" + "n" * 194}),
    ],
)  # fmt: skip
def test_it_is_a_schedule_and_a_handler(
    cron: str | None, options: dict[str, Any], declared: dict[str, Any]
) -> None:
    made = gapless.schedule(cron, **options)(nightly)
    expected = Schedule(**{"name": "nightly", "topic": TOPIC, **declared})
    assert made.declares == expected
    assert (made.topic, made.group) == (TOPIC, f"schedule.{expected.name}")
    assert made.on_failure is None


def test_what_it_says_of_failures_is_the_handlers() -> None:
    @resource
    def pool() -> Any:
        yield 1

    made = gapless.schedule(
        "@daily", on_failure="retry", retry_delays_s=[timedelta(seconds=2)], resources=[pool]
    )(nightly)
    assert (made.on_failure, made.retry_delays_s) == ("retry", (2.0,))
    assert list(made.resources) == [pool]


class _Called:
    """A function without a name."""

    def __call__(self, due: datetime, conn: object) -> None: ...


def test_a_function_that_does_not_tell_its_arguments_is_taken() -> None:
    largest: Any = max
    made = gapless.schedule("@daily", name="n")(largest)
    assert isinstance(made.declares, Schedule)
    assert gapless.schedule("@daily", name="n")(_Called()).declares == made.declares


# -- what a call does -----------------------------------------------------------------------------
