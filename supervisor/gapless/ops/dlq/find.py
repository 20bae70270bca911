"""Find units by place, or by group, topic, key, error, time and state; return details of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, LiteralString

from gapless.db.queries import query
from gapless.errors import RefusedError
from gapless.ops.dlq.records import (
    DlqEvent,
    DlqRow,
    DlqUnit,
    ParkedAhead,
    ParkedBehind,
    SameError,
    SameTransaction,
)
from gapless.ops.place import GroupPlace, require_range
from gapless.ops.rows import row, rows

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["DlqDetails", "DlqFilter", "list_units", "show_unit"]

OPEN = ("dead", "waiting", "parked")
STATES = (*OPEN, "redriven", "discarded")
EVENTS_MAX = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DlqFilter:
    """A choice of units: they meet every condition that is not None.

    key, event_type: one of their events has it. error: a text in the error or its traceback, in
    any case. error_form: the error without numbers and ids, as summarise_units() returns it.
    since, until: the last failure was at or after this time, before this time. age: a timedelta;
    the last failure is at most this old, by the database's clock. states: one of these; None: any.
    """

    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    key: str | None = None
    error: str | None = None
    error_form: str | None = None
    event_type: str | None = None
    since: datetime | None = None
    age: timedelta | None = None
    until: datetime | None = None
    states: Sequence[str] | None = OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class DlqDetails:
    """All facts about a unit, with its first events; ahead: for a parked one.

    behind: units parked behind it. same_transaction: other units of it that were set aside.
    alike: its error, with the number of units that have it.
    """

    unit: DlqUnit
    events: Sequence[DlqEvent]
    behind: Sequence[ParkedBehind]
    ahead: ParkedAhead | None
    same_transaction: Sequence[SameTransaction]
    alike: SameError


def list_units(
    conn: Connection[Any], wanted: DlqFilter, *, limit: int | None = None, skip: int = 0
) -> list[DlqRow]:
    """Return the units that the filter chooses, newest failure first.

    limit: at most this many units; None: all. skip: without this many units at first.

    Raises RefusedError (GL404) for a group or topic that is not there and has left no units,
    UsageError for a range that ends before it begins.
    """
    require_known(conn, wanted)
    return rows(conn, DlqRow, query("dlq", "units"), **said(wanted), limit=limit, skip=skip)


def said(wanted: DlqFilter) -> dict[str, Any]:
    """Return the parameters of a query of units."""
    params = {each.name: getattr(wanted, each.name) for each in fields(wanted)}
    if wanted.states is not None:
        params["states"] = list(wanted.states)
    return params


def require_known(conn: Connection[Any], wanted: DlqFilter) -> None:
    """Raise the errors of list_units()."""
    require_range(conn, wanted.since or wanted.age, wanted.until)
    _require_known(conn, "group", query("dlq", "knows_group"), wanted.group)
    _require_known(conn, "topic", query("dlq", "knows_topic"), wanted.topic)


def find_unit(conn: Connection[Any], place: GroupPlace) -> DlqUnit:
    """Return the unit at a place, which may be that of any of its events.

    Raises UsageError for a place without an offset, RefusedError (GL404) when there is none.
    """
    found = rows(conn, DlqUnit, query("dlq", "unit"), **place.event)
    if not found:
        raise _absent(place)
    return found[0]


def _absent(place: GroupPlace) -> RefusedError:
    return RefusedError(
        f"there is no dead letter {place}: gapless dlq list --state all shows all units",
        sqlstate="GL404",
    )


def list_events(conn: Connection[Any], unit: DlqUnit, *, limit: int = EVENTS_MAX) -> list[DlqEvent]:
    """Return the events of a unit in offset order, at most `limit` of them."""
    statement = query("dlq", "events")
    where = unit.place.event
    return rows(conn, DlqEvent, statement, **where, last_offset=unit.last_offset, limit=limit)


def show_unit(conn: Connection[Any], place: GroupPlace, *, events_max: int = 50) -> DlqDetails:
    """Return all facts about the unit at a place, with at most events_max of its events.

    Raises the errors of find_unit().
    """
    unit = find_unit(conn, place)
    where = unit.place.event
    kin = query("dlq", "kin")
    events = list_events(conn, unit, limit=events_max)
    alike = rows(conn, SameError, query("dlq", "alike"), **where)
    if not alike:  # a worker has handled it in the meantime
        raise _absent(place)
    return DlqDetails(
        unit=unit,
        events=events,
        behind=rows(conn, ParkedBehind, query("dlq", "behind"), **where),
        ahead=find_ahead(conn, unit),
        alike=alike[0],
        same_transaction=rows(conn, SameTransaction, kin, **where, transaction=unit.transaction_id),
    )


def find_ahead(conn: Connection[Any], unit: DlqUnit) -> ParkedAhead | None:
    """Return the unit that a parked one waits for."""
    found = rows(conn, ParkedAhead, query("dlq", "ahead"), **unit.place.event)
    return found[0] if found else None


def _require_known(conn: Connection[Any], kind: str, look: LiteralString, name: str | None) -> None:
    if name is not None and row(conn, look, name=name) != (True,):
        raise RefusedError(
            f'there is no {kind} "{name}": gapless {kind}s lists them', sqlstate="GL404"
        )
