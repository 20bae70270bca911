"""Snapshots made by hand, to test views without a database."""

import io
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from rich.console import Console
from rich.text import Text

from gapless.status.draw import draw, one_look
from gapless.status.history import History
from gapless.status.snapshot import (
    Presence,
    RecentLetter,
    Sequencing,
    Server,
    Snapshot,
    Standing,
    TopicEnd,
)
from gapless.status.view import Canvas, ConsoleState, Look
from gapless.status.words import UNICODE, Glyphs

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
MEMBERS = {name: UUID(int=n) for n, name in enumerate(("host-a", "host-b", "host-c"), start=1)}


def standing(partition_id: int, owner: str | None = "host-a", **fields: Any) -> Standing:
    """Return a partition of billing/orders that `owner` works on, without lag."""
    next_offset = fields.pop("next_offset", 101)
    lag = fields.pop("lag", 0)
    target = fields.pop("target", owner)
    return Standing(
        **{
            "group_id": "billing",
            "topic": "orders",
            "partition_id": partition_id,
            "owner": owner,
            "owner_id": MEMBERS[owner] if owner else None,
            "target": target,
            "target_id": MEMBERS[target] if target else None,
            "epoch": 1,
            "is_held": owner is not None,
            "next_offset": next_offset,
            "last_offset": next_offset + lag - 1,
            "lag": lag,
            "lag_s": lag / 10,
            "error": None,
            "error_ts": None,
            "dead_letters": 0,
            **fields,
        }
    )


def presence(name: str, **fields: Any) -> Presence:
    """Return an active member."""
    return Presence(
        **{
            "member_id": MEMBERS[name],
            "name": name,
            "state": "active",
            "up_s": 100.0,
            "beat_s": 0.5,
            "ttl_s": 10.0,
            "is_present": True,
            "is_suspected": False,
            "capacity": None,
            "owned": 4,
            "wanted": 4,
            "groups": ["billing/orders"],
            **fields,
        }
    )


def letter(partition_id: int, error: str, *, attempts: int = 1) -> RecentLetter:
    """Return a dead letter of two seconds ago."""
    return RecentLetter(
        group_id="billing",
        topic="orders",
        partition_id=partition_id,
        first_offset=17,
        attempts=attempts,
        error=error,
        last_failed_ts=NOON - timedelta(seconds=2),
    )


def look(
    partitions: Sequence[Standing] = (),
    *,
    at_s: float = 0.0,
    members: Sequence[Presence] = (),
    letters: Sequence[RecentLetter] = (),
    sequencer_pid: int | None = 4711,
) -> Snapshot:
    """Return a snapshot taken `at_s` seconds past noon, of a healthy server."""
    ends = [row.last_offset for row in partitions]
    return Snapshot(
        place="shop on db1:5432",
        server=Server(
            taken_ts=NOON + timedelta(seconds=at_s),
            database="shop",
            version="15.8",
            started_ts=NOON - timedelta(days=3),
            oldest_transaction_s=None,
            oldest_transaction=None,
            sessions=12,
            commits=1000,
            rollbacks=1,
        ),
        sequencer=Sequencing(
            run=7,
            events=10,
            ran_ts=NOON,
            pid=sequencer_pid,
            is_asleep=sequencer_pid is not None,
            needs_rebase=False,
        ),
        topics=(
            TopicEnd(topic="orders", partitions=len(ends), events=sum(ends), last_offsets=ends),
        ),
        pending=(),
        members=tuple(members),
        partitions=tuple(partitions),
        letters=tuple(letters),
    )


def with_server(snapshot: Snapshot, **fields: Any) -> Snapshot:
    """Return the snapshot with other facts about the server."""
    return replace(snapshot, server=replace(snapshot.server, **fields))


def pages(
    shot: Snapshot | Look,
    state: ConsoleState | None = None,
    *,
    width: int = 80,
    height: int | None = None,
    history: History | None = None,
    glyphs: Glyphs = UNICODE,
) -> list[str]:
    """Return the lines of a page as text; a snapshot alone is one look."""
    looked = shot if isinstance(shot, Look) else Look(snapshot=shot, history=history)
    canvas = Canvas(width=width, height=height, glyphs=glyphs, time_zone=UTC)
    return [line.plain for line in draw(looked, state or ConsoleState(), canvas)]


def once(shot: Snapshot, **size: int) -> list[str]:
    """Return the lines that `gapless status` prints of a snapshot; without a size, into a pipe."""
    return [line.plain for line in one_look(shot, **size)]


def printed(lines: Sequence[Text], **options: Any) -> str:
    """Return the characters that a terminal would receive for lines."""
    file = io.StringIO()
    console = Console(file=file, width=200, force_terminal=True, _environ={}, **options)
    for line in lines:
        console.print(line)
    return file.getvalue()
