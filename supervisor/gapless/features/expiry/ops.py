"""Groups that expire after a long time without use."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gapless.db.queries import query
from gapless.ops.rows import row, rows
from gapless.ops.text import age_text

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["ExpiryChange", "GroupExpiry", "list_expiries", "set_expiry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupExpiry:
    """A group that is dropped after expires_after_s seconds without a member and without a claim.

    idle_s: seconds without use; left_s: seconds until it is dropped. set_aside: units that would go
    with it. set_by: a database role.
    """

    group: str
    expires_after_s: float
    idle_s: float
    left_s: float
    set_aside: int
    set_by: str
    set_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryChange:
    """The new expiry of a group; expires_after_s: None is never. changed: whether it differs."""

    group: str
    expires_after_s: float | None
    changed: bool

    def __str__(self) -> str:
        when = "never expires"
        if self.expires_after_s is not None:
            when = f"is dropped when it is not used for {age_text(self.expires_after_s)}"
        return f"group {self.group} {when}" if self.changed else f"nothing to do: it {when} already"


def list_expiries(conn: Connection[Any], group: str | None = None) -> list[GroupExpiry]:
    """Return the groups that expire, by name, or one group; an empty list: it never expires."""
    return rows(conn, GroupExpiry, query("expiry", "expiries"), group=group)


def set_expiry(conn: Connection[Any], group: str, after_s: float | None) -> ExpiryChange:
    """Set the time without use after which a group is dropped, with its letters.

    after_s: 60 seconds to ten years; None: never, the default of every group. Its time starts anew.
    Raises RefusedError for a time out of bounds, for the group of a pipeline, and (GL404) for an
    unknown group.
    """
    (changed,) = row(conn, query("expiry", "set_expiry"), group=group, after_s=after_s)
    return ExpiryChange(group=group, expires_after_s=after_s, changed=bool(changed))
