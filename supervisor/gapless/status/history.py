"""The course of successive snapshots: rates, their recent course, and news (pure).

Rates come from offsets and the database's clock, so they are right for irregular looks, too.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gapless.status.news import Happening, News
from gapless.status.snapshot import Key, Snapshot

POINT_S = 0.8  # looks closer together than this are one point of the course
WINDOW_S = 5.0  # the displayed rate is the mean over this long
OUTLOOK_S = 10.0  # the time to catch up is estimated from the lag over this long
POINTS_MAX = 60  # the widest course that is drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    ts_s: float
    events: int
    done: Mapping[Key, int]  # events: of a queue with those above the floor, which a long job holds
    lags: Mapping[tuple[str, str], int]


class History:
    """Remembers the last snapshots; add each one once, in order."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque(maxlen=POINTS_MAX + 1)
        self._news = News()
        self._before: Mapping[tuple[str, str], Sequence[float | None]] = {}

    def begin(self, lags: Mapping[tuple[str, str], Sequence[float | None]]) -> None:
        """Take the lags of groups before the first snapshot, as the database recorded them."""
        self._before = lags

    def add(self, snapshot: Snapshot) -> None:
        """Add the next snapshot; one older than the last begins a new history of rates."""
        self._news.add(snapshot)
        sample = _Sample(
            ts_s=snapshot.server.taken_ts.timestamp(),
            events=snapshot.totals.events,
            done={row.key: row.next_offset + row.finished_ahead for row in snapshot.partitions},
            lags=_lags(snapshot),
        )
        samples = self._samples
        if samples and sample.ts_s <= samples[-1].ts_s:
            samples.clear()
        if len(samples) >= 2 and samples[-1].ts_s - samples[-2].ts_s < POINT_S:
            samples.pop()
        samples.append(sample)

    def note(self, snapshot: Snapshot, text: str) -> None:
        """Add a line of the caller's to the news."""
        self._news.note(snapshot, text)

    @property
    def happenings(self) -> tuple[Happening, ...]:
        """The news, oldest first."""
        return self._news.happenings

    def rate(self, key: Key) -> float | None:
        """Return the events per second handled in a partition; None until two snapshots tell."""
        then, now = self._window()
        if then is None or now is None:
            return None
        return _rate(then, now, key)

    def handled(self) -> float | None:
        """Return the events per second handled in all partitions of all groups."""
        then, now = self._window()
        if then is None or now is None:
            return None
        return sum(_rate(then, now, key) or 0.0 for key in now.done)

    def published(self) -> float | None:
        """Return the events per second that got an offset."""
        then, now = self._window()
        if then is None or now is None:
            return None
        return max(0.0, (now.events - then.events) / (now.ts_s - then.ts_s))

    def course(self, key: Key) -> list[float | None]:
        """Return the rate from point to point, oldest first."""
        return [_rate(then, now, key) for then, now in pairwise(self._samples)]

    def lags(self, group: tuple[str, str]) -> list[float | None]:
        """Return the lag of a group in a topic from point to point, oldest first.

        Points before the first snapshot are minutes.
        """
        own = [sample.lags.get(group) for sample in self._samples]
        return [*self._before.get(group, ()), *own][-POINTS_MAX:]

    def lag_per_s(self, group: tuple[str, str]) -> float | None:
        """Return the growth of a group's lag in a topic, in events per second; None: unknown."""
        then, now = self._window(OUTLOOK_S)
        if then is None or now is None or group not in then.lags or group not in now.lags:
            return None
        return (now.lags[group] - then.lags[group]) / (now.ts_s - then.ts_s)

    def _window(self, window_s: float = WINDOW_S) -> tuple[_Sample | None, _Sample | None]:
        """Return the newest sample and the oldest one within window_s before it."""
        if len(self._samples) < 2:
            return None, None
        now = self._samples[-1]
        recent = [s for s in self._samples if 0 < now.ts_s - s.ts_s <= window_s]
        return (recent[0] if recent else self._samples[-2]), now


def _lags(snapshot: Snapshot) -> Mapping[tuple[str, str], int]:
    """Add the lag up by group and topic."""
    lags: Counter[tuple[str, str]] = Counter()
    for row in snapshot.partitions:
        lags[row.group_id, row.topic] += row.lag
    return lags


def _rate(then: _Sample, now: _Sample, key: Key) -> float | None:
    """Return the rate between two samples; a seek backwards is not a rate."""
    before, after = then.done.get(key), now.done.get(key)
    if before is None or after is None:
        return None
    return max(0.0, (after - before) / (now.ts_s - then.ts_s))
