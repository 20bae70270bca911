"""The past of groups in a line each, for the terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gapless.features.history.ops import Course, Numbers, Past, history
from gapless.features.history.record import record
from gapless.ops.text import ONLY_JSON
from gapless.status.words import PLAIN, UNICODE, sparkline

if TYPE_CHECKING:
    from psycopg import Connection

_TREND_POINTS = 24
_HOUR_POINTS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class CourseLine:
    """The past of a group in a topic: the newest lag, its bounds, the highest age, mean rates.

    Without a group it is that of the topic; without both that of the whole database. lags: as in
    Course, so that a program can draw them.
    """

    group: str | None
    topic: str | None
    lag: float | None
    lag_min: float | None
    lag_max: float | None
    lag_s_max: float | None
    handled_per_s: float | None
    published_per_s: float | None
    dead_letters: float | None
    members: float | None
    lags: Numbers = field(default=(), metadata=ONLY_JSON)

    @property
    def trend(self) -> str:
        """The lag as a sparkline: at most 24 signs that the output can show."""
        can = (sys.stdout.encoding or "").lower().startswith("utf")
        size = max(1, -(-len(self.lags) // _TREND_POINTS))
        parts = [self.lags[n : n + size] for n in range(0, len(self.lags), size)]
        points = [max(_known(part), default=None) for part in parts]
        return sparkline(points, len(points), UNICODE if can else PLAIN)


def course_line(course: Course) -> CourseLine:
    """Return the line of a course."""
    lags = _known(course.lag)
    return CourseLine(
        group=course.group,
        topic=course.topic,
        lag=_newest(course.lag),
        lag_min=min(lags, default=None),
        lag_max=max(lags, default=None),
        lag_s_max=max(_known(course.lag_s), default=None),
        handled_per_s=_mean(course.handled_per_s),
        published_per_s=_mean(course.published_per_s),
        dead_letters=_newest(course.dead_letters),
        members=_newest(course.members),
        lags=course.lag,
    )


def course_lines(past: Past) -> Sequence[CourseLine]:
    """Return the lines of all courses."""
    return [course_line(each) for each in past.series]


class RecordedPast:
    """The past of groups, for status, the console and a gateway that sequences."""

    def record(self, conn: Connection[Any]) -> float:
        """Record the present minute; return the seconds until the next one."""
        return record(conn, None)

    def lags(self, conn: Connection[Any]) -> Mapping[tuple[str, str], Numbers]:
        """Return the lag of the last hour's minutes, oldest first, by group and topic."""
        found = history(conn, since=timedelta(hours=1), points=_HOUR_POINTS).series
        return {
            (each.group, each.topic): _from_first(each.lag)
            for each in found
            if each.group is not None and each.topic is not None
        }

    def lines(self, conn: Connection[Any], since_s: float) -> Sequence[CourseLine]:
        """Return a line for each group in a topic."""
        past = history(conn, since=timedelta(seconds=since_s), points=_TREND_POINTS)
        return [each for each in course_lines(past) if each.group is not None]


def _known(values: Numbers) -> list[float]:
    return [value for value in values if value is not None]


def _newest(values: Numbers) -> float | None:
    known = _known(values)
    return known[-1] if known else None


def _mean(values: Numbers) -> float | None:
    known = _known(values)
    return round(sum(known) / len(known), 1) if known else None


def _from_first(values: Numbers) -> Numbers:
    """Leave out the steps before the first and behind the last that was recorded."""
    known = [n for n, value in enumerate(values) if value is not None]
    return values[known[0] : known[-1] + 1] if known else ()
