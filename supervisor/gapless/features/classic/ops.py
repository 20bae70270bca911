"""Views and channels for programs that watch the classic tables: turn on, turn off, list."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from psycopg.errors import LockNotAvailable

from gapless.db.queries import query
from gapless.errors import GaplessError
from gapless.ops.rows import row, rows

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = [
    "ClassicInfo", "hide_classic", "list_classic", "notify_classic", "show_classic",
    "silence_classic",
]  # fmt: skip

CLASSIC_VIEW = "public.consumer_offsets"
CLASSIC_CHANNEL = "event_channel"
_LOCK_S_MAX = 2  # the sequencer waits behind us


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicInfo:
    """The state of a view or channel for programs that watch the classic tables.

    kind: `offsets` of a group, which a view shows; `notify` of a topic, on a channel. name: of the
    view or the channel. problem: the difference from the requested state; None: no difference.
    remedy: the command that helps.
    """

    kind: str
    group: str | None
    topic: str
    name: str
    asked_by: str = field(metadata={"only_json": True})
    created_ts: datetime = field(metadata={"only_json": True})
    problem: str | None
    remedy: str | None


def show_classic(
    conn: Connection[Any], group: str, topic: str | None = None, *, view: str = CLASSIC_VIEW
) -> bool:
    """Show a group's offsets in a view, as the classic consumer_offsets did; False: already shown.

    group: its name, or group/topic. topic: None: the one in `group`, or the group's only one.
    view: as SQL spells it; one view for all groups. Raises RefusedError for an unknown group, or if
    another relation has that name.
    """
    return _changed(conn, "show", **_place(group, topic), view=view)


def hide_classic(conn: Connection[Any], group: str, topic: str | None = None) -> bool:
    """Stop showing a group's offsets; the last one takes the view along. False: it was not shown.

    group, topic: as in show_classic(). Raises RefusedError for an unknown group.
    """
    return _changed(conn, "hide", **_place(group, topic))


def notify_classic(conn: Connection[Any], topic: str, *, channel: str = CLASSIC_CHANNEL) -> bool:
    """NOTIFY a channel when events of a topic have got their offsets; False: it already did.

    channel: 1 to 63 bytes. Raises RefusedError for an unknown topic or an invalid channel,
    GaplessError when offsets were being given for 2 s.
    """
    return _changed(conn, "notify", topic=topic, channel=channel)


def silence_classic(conn: Connection[Any], topic: str) -> bool:
    """Stop announcing a topic on its classic channel; False: it was not announced.

    Raises RefusedError for an unknown topic, GaplessError when offsets were being given for 2 s.
    """
    return _changed(conn, "silence", topic=topic)


def list_classic(conn: Connection[Any]) -> list[ClassicInfo]:
    """Return the views and channels for programs that watch the classic tables."""
    return rows(conn, ClassicInfo, query("classic", "list"))


def _place(group: str, topic: str | None) -> dict[str, str | None]:
    if topic is None:
        group, _, said = group.partition("/")
        topic = said or None
    return {"group": group, "topic": topic}


def _changed(conn: Connection[Any], name: str, **params: object) -> bool:
    try:
        with conn.transaction():
            row(conn, query("connect", "local_lock_timeout"), timeout=f"{_LOCK_S_MAX}s")
            return bool(row(conn, query("classic", name), **params)[0])
    except LockNotAvailable as error:
        raise GaplessError(
            f"offsets were being given, or read, for {_LOCK_S_MAX} s: nothing was changed; "
            "try again"
        ) from error
