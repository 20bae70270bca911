"""A line per group and topic: lag, its age and trend, rate, members, time to catch up (pure)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gapless.status.history import History
from gapless.status.snapshot import Snapshot, Standing

GroupKey = tuple[str, str]
"""A group in a topic: group_id, topic."""

CURRENT_S = 1.0  # an event that has waited for less is in hand, not behind


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLine:
    """A group in one topic, its partitions added up.

    members: supervisors that own a partition of it or serve the queue, or its server beside them.
    unserved: partitions without a member to serve them. stopped: partitions with an error.
    dead_letters, waiting, parked: units set aside; dead_events: events of the dead ones; aside_ts:
    when the first unit failed. lag_s: age of the oldest event it has not handled; 0 without one.
    handled_per_s, lag_per_s (the growth of the lag): None until two looks tell. lags: recent ones,
    oldest first. start: as of a Standing. Of queues: workers on all machines, and events: open,
    in_hand (reserved), in_work (sessions that handle some now), lapsed (reserved, past the time
    limit), finished_ahead of an unfinished one.
    """

    group_id: str
    topic: str
    mode: str = "ordered"
    partitions: int
    members: int
    unserved: int
    stopped: int
    paused: int
    lag: int
    lag_s: float
    dead_letters: int
    dead_events: int
    waiting: int
    parked: int
    aside_ts: datetime | None = None
    workers: int = 0
    open: int = 0
    in_hand: int = 0
    in_work: int = 0
    lapsed: int = 0
    lapsed_ts: datetime | None = None
    finished_ahead: int = 0
    handled_per_s: float | None = None
    lag_per_s: float | None = None
    lags: Sequence[float | None] = ()
    start: str = ""

    @property
    def key(self) -> GroupKey:
        """The identity of the line."""
        return (self.group_id, self.topic)

    @property
    def name(self) -> str:
        """Both names, as commands take them."""
        return f"{self.group_id}/{self.topic}"

    @property
    def is_troubled(self) -> bool:
        """Whether a person should look at it."""
        return self.stopped > 0 or self.unserved > 0

    @property
    def catch_up_s(self) -> float | None:
        """Seconds until its lag is 0, at this rate; None: unknown, or it does not shrink."""
        if self.lag == 0:
            return 0.0
        if self.lag_per_s is None or self.lag_per_s >= 0:
            return None
        return self.lag / -self.lag_per_s

    @property
    def outlook(self) -> str | None:
        """The reason why it does not catch up, in a word; None: it does, or that is unknown."""
        reasons = {
            "paused": self.paused == self.partitions,
            "nobody": self.lag > 0 and self.unserved == self.partitions,
            "stopped": self.stopped > 0 and self.lag > 0 and not self.catch_up_s,
            "grows": self.lag_s >= CURRENT_S and (self.lag_per_s or 0.0) > 0,
            "stands": self.lag_s >= CURRENT_S and self.lag_per_s == 0,
        }
        return next((word for word, holds in reasons.items() if holds), None)


def group_lines(snapshot: Snapshot, history: History | None = None) -> list[GroupLine]:
    """Return a line for each group and topic, by name. history: None is one look, without rates."""
    rows: dict[GroupKey, list[Standing]] = defaultdict(list)
    for row in snapshot.partitions:
        rows[row.group_id, row.topic].append(row)
    lines = [_line(key, own, history or History()) for key, own in sorted(rows.items())]
    serve = Counter(name for member in snapshot.members for name in member.groups)
    return [
        replace(line, members=serve[line.name]) if line.mode == "queue" else line for line in lines
    ]


def laggards_first(lines: Sequence[GroupLine]) -> list[GroupLine]:
    """Sort: stopped groups, then the most behind, then other trouble, then dead letters.

    Events in hand do not count as lag, so lines of groups that keep up do not move.
    """
    return sorted(
        lines,
        key=lambda line: (
            line.stopped == 0,
            -line.lag if line.lag_s >= CURRENT_S else 0,
            not line.is_troubled,
            -line.dead_letters,
        ),
    )


def _line(key: GroupKey, own: Sequence[Standing], history: History) -> GroupLine:
    rates = [per_s for per_s in (history.rate(row.key) for row in own) if per_s is not None]
    return GroupLine(
        group_id=key[0],
        topic=key[1],
        mode=own[0].mode,
        partitions=len(own),
        members=len({row.owner_id or row.owner for row in own} - {None}),
        unserved=sum(row.state == "unserved" for row in own),
        stopped=sum(row.error is not None for row in own),
        paused=sum(row.paused_ts is not None for row in own),
        lag=sum(row.lag for row in own),
        lag_s=max(row.lag_s or 0.0 for row in own),
        dead_letters=sum(row.dead_letters for row in own),
        dead_events=sum(row.dead_events for row in own),
        waiting=sum(row.waiting for row in own),
        parked=sum(row.parked for row in own),
        aside_ts=min((row.aside_ts for row in own if row.aside_ts), default=None),
        workers=max(row.workers for row in own),
        open=sum(row.open for row in own),
        in_hand=sum(row.in_hand for row in own),
        in_work=sum(row.in_work for row in own),
        lapsed=sum(row.lapsed for row in own),
        lapsed_ts=min((row.lapsed_ts for row in own if row.lapsed_ts), default=None),
        finished_ahead=sum(row.finished_ahead for row in own),
        handled_per_s=sum(rates) if rates else None,
        lag_per_s=history.lag_per_s(key),
        lags=history.lags(key),
        start=own[0].start,
    )
