"""The past of groups and topics, as the database recorded it each minute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from gapless.db.queries import query
from gapless.errors import RefusedError, UsageError
from gapless.ops.place import read_since
from gapless.ops.rows import row, rows
from gapless.ops.text import age_text, stamp

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["Course", "Past", "history"]

POINTS_MAX = 720
POINTS = 180
SINCE = "6h"
FIELDS = ("lag", "lag_s", "handled_per_s", "dead_letters", "members", "published_per_s")
MINUTES_MAX = 50_000  # of all series of a page: they take half a second to read
_MINUTE_S = 60
_HOUR_S = 3600
Numbers = Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The course of a group in a topic: a number a step; None where nothing was recorded.

    Without a group it is that of the topic, which has published_per_s alone; without a topic that
    of the whole database: the sums, and the oldest age. lag, lag_s (the age of the oldest unhandled
    event) and dead_letters (units) are the most of a step, rates the mean, members the last.
    """

    group: str | None
    topic: str | None
    lag: Numbers
    lag_s: Numbers
    handled_per_s: Numbers
    dead_letters: Numbers
    members: Numbers
    published_per_s: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Courses from `since` to before `until`, in steps of step_s seconds.

    since, until: times in UTC. kept_hours: hours that minutes are kept. page: this part of the
    courses, with at most 833 hours of all of them, from 1. pages: parts of so many hours.
    """

    since: datetime
    until: datetime
    step_s: int
    kept_hours: int
    page: int
    pages: int
    series: Sequence[Course]

    def document(self, of: Sequence[str] = FIELDS) -> Mapping[str, object]:
        """Return it as the route GET /v1/history does, with these fields of each course."""
        return {
            "from": stamp(self.since),
            "to": stamp(self.until),
            "step_s": self.step_s,
            "kept_hours": self.kept_hours,
            "page": self.page,
            "pages": self.pages,
            "series": [
                {name: getattr(each, name) for name in ("group", "topic", *of)}
                for each in self.series
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    now_ts: datetime
    kept_hours: int | None
    series: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steps(Course):
    steps: Sequence[int] = field(default=())


def history(  # noqa: PLR0913 - the filters
    conn: Connection[Any],
    group: str | None = None,
    topic: str | None = None,
    *,
    since: str | datetime | timedelta = SINCE,
    until: str | datetime | timedelta | None = None,
    points: int = POINTS,
    page: int = 1,
) -> Past:
    """Return the past of a group, a topic, or all: the database first, then by topic and group.

    group: "" is topics without their groups, and with a topic of "" the database alone. since: a
    timedelta ago, a time (one without a zone is UTC), or one of both as text, such as 6h. until: a
    timedelta ago, or as since; None: now. points: at most so many steps, of whole minutes each: 1
    to 720. page: from 1, of at most 833 hours of all its courses: 34 courses of a day.
    Raises UsageError for a range that is empty or begins before the minutes that are kept, and a
    page behind the last one; RefusedError (GL404) for an unknown group or topic, and where no
    history is.
    """
    if not 1 <= points <= POINTS_MAX:
        raise UsageError(f"points: {points} must be from 1 to {POINTS_MAX}")
    row(conn, query("history", "known"), group=group or None, topic=topic or None)
    (state,) = rows(conn, _State, query("history", "state"), group=group, topic=topic)
    if not state.kept_hours:
        raise RefusedError(
            "there is no history yet: gapless run writes it each minute, or a gateway without one"
            if state.kept_hours is None
            else "there is no history: it is switched off (historyHours: 0)",
            sqlstate="GL404",
        )
    first, step_s, number = _cover(*_range(state, since, until), points)
    last = first + timedelta(seconds=number * step_s)
    most = max(1, MINUTES_MAX * _MINUTE_S // (number * step_s))
    pages = max(1, -(-state.series // most))
    if not 1 <= page <= pages:
        raise UsageError(f"page: {page} must be from 1 to {pages}")
    found = rows(
        conn,
        _Steps,
        query("history", "steps"),
        group=group,
        topic=topic,
        since=first,
        until=last,
        step_s=step_s,
        most=most,
        skip=most * (page - 1),
    )
    return Past(
        since=first,
        until=last,
        step_s=step_s,
        kept_hours=state.kept_hours,
        page=page,
        pages=pages,
        series=[_course(each, number) for each in found],
    )


def _range(
    state: _State, since: str | datetime | timedelta, until: str | datetime | timedelta | None
) -> tuple[datetime, datetime]:
    """Return the first minute that begins in a range, and the one after its last.

    Raises UsageError.
    """
    # In UTC: within the session's time zone, Python counts hours by the clock on the wall.
    now, kept_hours = state.now_ts.astimezone(UTC), state.kept_hours or 0
    first, last = _time(since, now), now if until is None else min(_time(until, now), now)
    if first > now:
        raise UsageError(f"since: {stamp(first)} has not come yet: it is {stamp(now)}")
    if first >= last:
        raise UsageError(f"the range ends before it begins: {stamp(first)} to {stamp(last)}")
    if first < now - timedelta(hours=kept_hours, minutes=1):
        raise UsageError(
            f"since: {stamp(first)} is too long ago: history is kept for "
            f"{age_text(kept_hours * _HOUR_S)} (historyHours)"
        )
    last = _minute(last)
    return min(_minute(first), last - timedelta(minutes=1)), last


def _cover(first: datetime, last: datetime, points: int) -> tuple[datetime, int, int]:
    """Return the begin, the length in seconds and the number of the steps that cover a range.

    They begin at multiples of their length, so a chart that is drawn again looks the same: one more
    than fills the range may be needed.
    """
    minutes = int((last - first).total_seconds()) // _MINUTE_S
    if points == 1:
        return first, minutes * _MINUTE_S, 1
    step_s = _MINUTE_S * (1 if minutes <= points else -(-minutes // (points - 1)))
    begin_s = int(first.timestamp()) // step_s * step_s
    number = -(-(int(last.timestamp()) - begin_s) // step_s)
    return datetime.fromtimestamp(begin_s, UTC), step_s, number


def _time(said: str | datetime | timedelta, now: datetime) -> datetime:
    if isinstance(said, str):
        said = read_since(said)
    try:
        if isinstance(said, timedelta):
            return now - said
        return said.astimezone(UTC) if said.tzinfo else said.replace(tzinfo=UTC)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _minute(time: datetime) -> datetime:
    """Return the first minute that begins then or later."""
    begun = time.astimezone(UTC).replace(second=0, microsecond=0)
    return begun if begun == time else begun + timedelta(minutes=1)


def _course(found: _Steps, number: int) -> Course:
    """Put the recorded steps of a series in their places among all."""

    def placed(values: Numbers) -> Numbers:
        row: list[float | None] = [None] * number
        for step, value in zip(found.steps, values, strict=True):
            row[step] = value
        return row

    return Course(
        group=found.group,
        topic=found.topic,
        **{name: placed(getattr(found, name)) for name in FIELDS},
    )
