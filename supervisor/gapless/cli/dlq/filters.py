"""Which dead letters: by place, or by group, topic, key, error, time and state."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, LiteralString
from uuid import UUID

from gapless.cli.parser import whole
from gapless.cli.place import Place, moment, spell
from gapless.db.queries import query
from gapless.errors import UsageError
from gapless.ops.rows import rows
from gapless.ops.text import whole_seconds

if TYPE_CHECKING:
    from psycopg import Connection

OPEN = ("dead", "waiting", "parked")
STATES = (*OPEN, "redriven", "discarded")
EVENTS_MAX = 1_000_000
_FILTERS = ("group", "topic", "partition", "key", "error", "since", "until", "states")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRow:
    """A line of `dlq list`: offset is the unit's first, key and event_type its first event's."""

    group: str
    topic: str
    partition: int
    offset: int
    events: int
    key: str | None
    event_type: str | None
    state: str
    attempts: int
    failed: datetime
    next_attempt: datetime | None
    error: str

    @property
    def place(self) -> str:
        return spell(self.group, self.topic, self.partition, self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A unit that was set aside; times are null for what has not happened."""

    group: str
    topic: str
    partition: int
    offset: int
    last_offset: int
    events: int
    transaction_id: UUID
    state: str
    attempts: int
    crashes: int
    next_attempt: datetime | None
    reason: str
    exception: str
    exception_class: str | None
    sqlstate: str | None
    worker: str | None
    duration_ms: float | None
    first_failed: datetime
    failed: datetime
    died: datetime | None
    redriven_by: str | None
    redriven: datetime | None
    closed: datetime | None
    discarded_by: str | None
    discard_reason: str | None

    @property
    def place(self) -> str:
        return spell(self.group, self.topic, self.partition, self.offset)

    @property
    def where(self) -> dict[str, object]:
        """The parameters of the queries that take a unit."""
        return {
            "group": self.group,
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterEvent:
    """An event of a unit; headers and payload are JSON text."""

    offset: int
    message_id: int
    key: str | None
    event_type: str | None
    host_id: str | None
    user_id: str | None
    transaction_id: UUID
    published: datetime
    headers: str | None
    payload: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """A unit parked behind another."""

    partition: int
    offset: int
    events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """The unit that a parked one waits for; of the same group and topic."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kin:
    """A unit of the same transaction; behind: so many are parked behind it."""

    group: str
    topic: str
    partition: int
    offset: int
    state: str
    behind: int

    def __str__(self) -> str:
        parked = f", {self.behind} parked behind it" if self.behind else ""
        place = spell(self.group, self.topic, self.partition, self.offset)
        return f"{place} ({self.state}{parked})"


def add_filters(parser: argparse.ArgumentParser, *, states: Sequence[str]) -> None:
    """Declare the filters; `states` are those meant without --state."""
    chosen = parser.add_argument_group("which ones (all that are said must hold)")
    chosen.add_argument("--group", help="of this group")
    chosen.add_argument("--topic", help="of this topic")
    chosen.add_argument("--partition", type=whole(0, 4095), metavar="P", help="of this partition")
    chosen.add_argument("--key", help="with an event of this key")
    chosen.add_argument(
        "--error", metavar="TEXT", help="with this in the error or its traceback, in any case"
    )
    chosen.add_argument(
        "--since",
        type=_since,
        metavar="TS|AGE",
        help="died (failed last) then or later, or so long ago at most: 15m, 12h, 7d",
    )
    chosen.add_argument("--until", type=moment, metavar="TS", help="died (failed last) before then")
    chosen.add_argument(
        "--state",
        dest="states",
        action="append",
        choices=(*STATES, "all"),
        help=f"in this state; repeat for more (default: {', '.join(states)})",
    )
    parser.set_defaults(default_states=states)


def is_filtered(args: argparse.Namespace) -> bool:
    """Tell whether any filter was said."""
    return any(getattr(args, name) is not None for name in _FILTERS)


def find(conn: Connection[Any], args: argparse.Namespace, *, limit: int | None) -> list[UnitRow]:
    """Return what the filters choose, newest failure first.

    Raises UsageError for a group or topic that is not there, and has left no dead letters.
    """
    _require_known(conn, "group", query("dlq", "knows_group"), args.group)
    _require_known(conn, "topic", query("dlq", "knows_topic"), args.topic)
    wanted = {name: getattr(args, name) for name in _FILTERS}
    states = args.states or list(args.default_states)
    age = isinstance(args.since, timedelta)
    wanted |= {"since": None, "age": args.since} if age else {"age": None}
    wanted["states"] = None if "all" in states else states
    return rows(conn, UnitRow, query("dlq", "units"), **wanted, limit=limit)


def _since(text: str) -> datetime | timedelta:
    """Read a time, or an age by the database's clock."""
    seconds = whole_seconds(text)
    if seconds is not None:
        return timedelta(seconds=seconds)
    try:
        return moment(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, or an age as 15m, 12h, 7d") from None


def _require_known(conn: Connection[Any], kind: str, look: LiteralString, name: str | None) -> None:
    if name is not None and conn.execute(look, {"name": name}).fetchone() != (True,):
        raise UsageError(f'there is no {kind} "{name}": gapless {kind}s lists them')


def require(conn: Connection[Any], place: Place) -> Unit:
    """Return the unit at a place. Raises UsageError when there is none."""
    found = rows(
        conn,
        Unit,
        query("dlq", "unit"),
        group=place.group,
        topic=place.topic,
        partition=place.partition,
        offset=place.offset,
    )
    if not found:
        raise UsageError(
            f"there is no dead letter {place}: gapless dlq list --state all shows what there is"
        )
    return found[0]


def events_of(conn: Connection[Any], unit: Unit, *, limit: int = EVENTS_MAX) -> list[LetterEvent]:
    """Return the events of a unit in offset order."""
    return rows(
        conn,
        LetterEvent,
        query("dlq", "events"),
        **unit.where,
        last_offset=unit.last_offset,
        limit=limit,
    )
