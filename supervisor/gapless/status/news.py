"""The news between two snapshots: hand-overs, members, errors, dead letters (pure)."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal
from uuid import UUID

from gapless.status.snapshot import Key, Snapshot, Standing

HAPPENINGS_MAX = 200
FOLD_ABOVE = 3  # more events of a kind at once become one line

Kind = Literal["hand-over", "member", "error", "dead letter", "sequencer", "pause", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One line of news, at the database's time."""

    ts: datetime
    kind: Kind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Owner:
    """The last owner of a partition; no owner has no id."""

    owner_id: UUID | None
    name: str
    epoch: int


_NOBODY = _Owner(owner_id=None, name="nobody", epoch=0)


class News:
    """Compares each snapshot with the one before; the first one is no news."""

    def __init__(self) -> None:
        self._before: Snapshot | None = None
        # Between release and acquire a partition has no owner: remember the last one.
        self._owners: dict[Key, _Owner] = {}
        self._happenings: deque[Happening] = deque(maxlen=HAPPENINGS_MAX)

    @property
    def happenings(self) -> tuple[Happening, ...]:
        return tuple(self._happenings)

    def add(self, snapshot: Snapshot) -> None:
        before, self._before = self._before, snapshot
        if before is None:
            self._owners = {row.key: _owner(row) for row in snapshot.partitions}
            return
        ts = snapshot.server.taken_ts
        told: list[tuple[Kind, str]] = [
            *(("sequencer", text) for text in _sequencer(before, snapshot)),
            *(("member", text) for text in _members(before, snapshot)),
            *(("hand-over", text) for text in self._hand_overs(snapshot)),
            *(("pause", text) for text in _pauses(before, snapshot)),
            *_troubles(before, snapshot),
        ]
        self._happenings.extend(Happening(ts=ts, kind=kind, text=text) for kind, text in told)

    def note(self, snapshot: Snapshot, text: str) -> None:
        self._happenings.append(Happening(ts=snapshot.server.taken_ts, kind="note", text=text))

    def _hand_overs(self, snapshot: Snapshot) -> Iterator[str]:
        """Report each partition with its old and new owner; many alike in a group are one line."""
        moves: dict[tuple[str, str, str, str], list[Standing]] = defaultdict(list)
        for row in snapshot.partitions:
            was, now = self._owners.get(row.key, _NOBODY), _owner(row)
            if now.owner_id is None and row.target_id is not None:
                continue  # on its way: reported on arrival
            if row.owner is None and now.owner_id == was.owner_id:
                now = replace(now, name=was.name)  # an evicted member still had a name then
            self._owners[row.key] = now
            if (was.owner_id, was.epoch) != (now.owner_id, now.epoch):
                moves[row.group_id, row.topic, was.name, now.name].append(row)
        for (_, _, was_name, now_name), rows in moves.items():
            yield from _tell_moves(was_name, now_name, rows)


def _tell_moves(was_name: str, now_name: str, rows: Sequence[Standing]) -> Iterator[str]:
    what = f"{was_name} → {now_name}" if was_name != now_name else f"{now_name} has a new worker"
    if len(rows) > FOLD_ABOVE:
        yield f"{rows[0].group_id}/{rows[0].topic}: {len(rows)} partitions {what}"
        return
    for row in rows:
        yield f"{row.name}: {what}" + (f", epoch {row.epoch}" if row.owner_id else "")


def _owner(row: Standing) -> _Owner:
    if row.owner_id is None:
        return _NOBODY
    return _Owner(owner_id=row.owner_id, name=row.owner or "an evicted member", epoch=row.epoch)


def _sequencer(before: Snapshot, after: Snapshot) -> Iterator[str]:
    was, now = before.sequencer.pid, after.sequencer.pid
    if was == now:
        return
    if now is None:
        yield "sequencer: no session has the role"
    else:
        yield f"sequencer: session {now} {'took over' if was else 'has the role'}"


def _members(before: Snapshot, after: Snapshot) -> Iterator[str]:
    was = {member.member_id: member for member in before.members}
    now = {member.member_id: member for member in after.members}
    for member_id, member in now.items():
        if member_id not in was:
            yield f"{member.name} joined"
        elif member.condition != was[member_id].condition:
            yield f"{member.name} is {member.condition}"
    why = {gone.member_id: f"is gone: {gone.reason}" for gone in after.evictions}
    for member_id, member in was.items():
        if member_id not in now:
            yield f"{member.name} {why.get(member_id, 'left')}"


def _troubles(before: Snapshot, after: Snapshot) -> Iterator[tuple[Kind, str]]:
    was = {row.key: row for row in before.partitions}
    for row in after.partitions:
        old = was.get(row.key)
        error = old.error if old else None
        if row.error is not None and row.error != error:
            yield "error", f"{row.name}: {row.error}"
        elif row.error is None and error is not None:
            yield "error", f"{row.name} continues"
        more = row.dead_letters - (old.dead_letters if old else 0)
        if more > 0:
            yield "dead letter", f"{row.name}: {more} dead letter{'s' if more > 1 else ''}"


def _pauses(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """Report partitions paused and resumed; many alike in a group are one line."""
    was = {row.key: row.pause for row in before.partitions}
    alike: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for row in after.partitions:
        if (row.pause is None) != (was.get(row.key) is None):
            what = "resumed" if row.pause is None else f"paused by {row.pause}"
            alike[row.group_id, row.topic, what].append(row.name)
    for (group_id, topic, what), names in alike.items():
        if len(names) > FOLD_ABOVE:
            yield f"{group_id}/{topic}: {len(names)} partitions {what}"
        else:
            yield from (f"{name} {what}" for name in names)
