"""Redrive or discard units: each once, in order, a number of them to a transaction."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, LiteralString

from gapless.db.queries import query
from gapless.errors import RefusedError, UsageError
from gapless.ops.dlq.find import find_ahead, find_unit
from gapless.ops.dlq.records import DlqUnit
from gapless.ops.place import GroupPlace, spell
from gapless.ops.rows import require_autocommit, rows
from gapless.ops.text import plain, stamp

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["DlqOutcome", "discard_unit", "discard_units", "redrive_unit", "redrive_units"]

_UNITS_PER_COMMIT = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class DlqOutcome:
    """The outcome for a unit: asked (to be handled again) or discarded, or why it was left alone.

    It is left alone when it is parked, redriven, discarded, absent, or busy (a worker or another
    person holds it at this moment).
    """

    place: GroupPlace
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedOutcome:
    """The outcome for the n-th unit of a statement, from 1."""

    n: int
    outcome: str


def redrive_unit(conn: Connection[Any], place: GroupPlace, *, who: str | None = None) -> DlqOutcome:
    """Have the unit at a place handled again. who: as in redrive_units().

    Raises UsageError for a place without an offset, RefusedError when it has no unit (GL404), or
    the unit is parked, or was redriven or discarded already (GL409).
    """
    units = require_units(conn, [place], "redrive")
    return redrive_units(conn, [unit.place for unit in units], who=who)[0]


def discard_unit(
    conn: Connection[Any], place: GroupPlace, *, reason: str, who: str | None = None
) -> DlqOutcome:
    """Discard the unit at a place, for good. Raises as redrive_unit(), except for parked units."""
    units = require_units(conn, [place], "discard")
    return discard_units(conn, [unit.place for unit in units], reason=reason, who=who)[0]


def redrive_units(
    conn: Connection[Any],
    places: Sequence[GroupPlace],
    *,
    who: str | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[DlqOutcome]:
    """Have units handled again, by the workers of their partitions, once and in offset order.

    Before: `conn` is in autocommit; 50 units are a transaction. places: of their first events, as
    list_units() returns them. who: for the record; None is this process's user and host.
    progress: called with the number of finished units. A unit that cannot be redriven is left
    alone, and its outcome says why.
    Raises UsageError for another connection.
    """
    require_autocommit(conn, "redrive_units()")
    what = {"who": who or whoami()}
    return list(_change(conn, places, query("dlq", "redrive"), what, progress))


def discard_units(
    conn: Connection[Any],
    places: Sequence[GroupPlace],
    *,
    reason: str,
    who: str | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[DlqOutcome]:
    """Discard units, for good; units parked behind them continue. Otherwise as redrive_units().

    progress: called with the number of finished units.

    Raises UsageError when the reason is blank.
    """
    require_reason(reason)
    require_autocommit(conn, "discard_units()")
    what = {"who": who or whoami(), "reason": reason}
    return list(_change(conn, places, query("dlq", "discard"), what, progress))


def require_reason(reason: str) -> None:
    """Raise UsageError for a blank reason."""
    if not reason.strip():
        raise UsageError("the reason must say something: only it remains")


def require_units(
    conn: Connection[Any], places: Sequence[GroupPlace], verb: Literal["redrive", "discard"]
) -> list[DlqUnit]:
    """Return the units at these places. Raises RefusedError if the verb cannot change one."""
    units = [find_unit(conn, place) for place in places]
    for unit in units:
        _require_open(unit)
        if verb == "redrive":
            _require_redrivable(conn, unit)
    return units


def whoami() -> str:
    """Return the person at the keyboard, for the record: many may share the role."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "?"
    return f"{user}@{socket.gethostname()}"


def by_offset(places: Sequence[GroupPlace]) -> list[GroupPlace]:
    """Return places of units by group, topic, partition and offset."""
    return sorted(places, key=lambda p: (p.group, p.topic, p.partition, p.offset))


def _require_open(unit: DlqUnit) -> None:
    if unit.state == "redriven" and unit.closed:
        raise _refusal(
            f"{unit.place} was redriven already, by {plain(unit.redriven_by or '?')}: "
            f"it was handled {stamp(unit.closed)}"
        )
    if unit.state == "discarded" and unit.closed:
        raise _refusal(
            f"{unit.place} was discarded already, by {plain(unit.discarded_by or '?')}, "
            f"{stamp(unit.closed)}: {plain(unit.discard_reason or '')}"
        )


def _require_redrivable(conn: Connection[Any], unit: DlqUnit) -> None:
    if unit.state == "waiting" and unit.redriven and unit.next_attempt == unit.redriven:
        raise _refusal(
            f"{unit.place} was redriven already, by {plain(unit.redriven_by or '?')}, "
            f"{stamp(unit.redriven)}: it waits for the worker of its partition"
        )
    if unit.state == "parked":
        ahead = find_ahead(conn, unit)
        first = spell(unit.group, unit.topic, ahead.partition, ahead.offset) if ahead else "?"
        raise _refusal(
            f"{unit.place} is parked behind {first}: redrive or discard that one, and it follows"
        )


def _refusal(text: str) -> RefusedError:
    return RefusedError(text, sqlstate="GL409")


def _change(
    conn: Connection[Any],
    places: Sequence[GroupPlace],
    statement: LiteralString,
    what: dict[str, Any],
    progress: Callable[[int], None],
) -> Iterator[DlqOutcome]:
    """Change the units in small transactions, so that workers and other people wait briefly."""
    ordered = by_offset(places)
    for start in range(0, len(ordered), _UNITS_PER_COMMIT):
        some = ordered[start : start + _UNITS_PER_COMMIT]
        where = {
            "groups": [each.group for each in some],
            "topics": [each.topic for each in some],
            "partitions": [each.partition for each in some],
            "offsets": [each.offset for each in some],
        }
        for place, done in zip(
            some, rows(conn, NumberedOutcome, statement, **where, **what), strict=True
        ):
            yield DlqOutcome(place=place, outcome=done.outcome)
        progress(start + len(some))
