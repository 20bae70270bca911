"""The consequences of a transaction, and its causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from gapless.db.queries import query
from gapless.errors import RefusedError
from gapless.ops.rows import row, rows

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["Chain", "ChainUnit", "trace"]

_FATES = {
    "open": "it has not committed yet",
    "rolled-back": "it was rolled back: nothing of it was published",
    "unknown": "no event of it is there: not committed, rolled back, older than the log, "
    "or never published",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainUnit:
    """A unit of a chain, as gapless.trace() returns it; offsets are inclusive.

    node: its number here; parent: the number of its cause, the unit that `group` handled. cause:
    the same as a place; detached: why the unit of that place is not here (dropped, elsewhere,
    left-out).
    state: sequenced, unsequenced (no offsets yet) or dropped (by retention, kept as a dead letter).
    groups: its state in each group. left_out: units that it caused and that are not here.
    """

    node: int | None
    parent: int | None
    is_asked: bool
    group: str | None
    cause: str | None
    detached: str | None
    topic: str | None
    partition: int | None
    first_offset: int | None
    last_offset: int | None
    events: int | None
    event_types: list[str] | None
    keys: list[str] | None
    transaction_id: UUID | None
    published: datetime | None
    state: str
    groups: list[dict[str, Any]]
    left_out: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The units of a chain, in the order of a walk through the tree.

    is_cut: some units were left out; left_out: units that are not here, None if they were not
    counted.
    """

    transaction_id: UUID
    units: Sequence[ChainUnit]
    is_cut: bool
    left_out: int | None

    @property
    def roots(self) -> list[ChainUnit]:
        """The units without a cause here."""
        return [each for each in self.units if each.parent is None]

    @property
    def has_asked(self) -> bool:
        """Whether a unit of the requested transaction is there."""
        return any(each.is_asked for each in self.units)

    @property
    def has_unsequenced(self) -> bool:
        """Whether some events have no offsets yet."""
        return any(each.state == "unsequenced" for each in self.units)

    def below(self) -> Mapping[tuple[int | None, str | None], Sequence[ChainUnit]]:
        """Return the units that each unit caused, by its number and the group that handled it."""
        found: dict[tuple[int | None, str | None], list[ChainUnit]] = {
            (each.node, known["group"]): [] for each in self.units for known in each.groups
        }
        for each in self.units:
            if each.parent is not None:
                found.setdefault((each.parent, each.group), []).append(each)
        return found

    def records(self) -> list[dict[str, Any]]:
        """Return the chain as nested records: a group's `published` has the units it caused."""
        below = self.below()
        return [_record(each, below) for each in self.roots]


def trace(conn: Connection[Any], transaction_id: UUID, *, units_max: int = 200) -> Chain:
    """Return the chain of a transaction from its first event on, at most units_max units of it.

    Raises RefusedError (GL404) when no event of it is there, with the likely reason.
    """
    statement = query("cli", "trace")
    found = rows(conn, ChainUnit, statement, transaction_id=transaction_id, units_max=units_max)
    if not found:
        (fate,) = row(conn, query("cli", "transaction_fate"), transaction_id=transaction_id)
        raise RefusedError(f"transaction {transaction_id}: {_FATES[fate]}", sqlstate="GL404")
    rest = next((each for each in found if each.node is None), None)
    return Chain(
        transaction_id=transaction_id,
        units=[each for each in found if each.node is not None],
        is_cut=rest is not None,
        left_out=rest.left_out if rest else None,
    )


def _record(
    unit: ChainUnit, below: Mapping[tuple[int | None, str | None], Sequence[ChainUnit]]
) -> dict[str, Any]:
    known = asdict(unit)
    for name in ("node", "parent", "is_asked"):
        del known[name]
    groups = [
        {
            **each,
            "published": [_record(one, below) for one in below[unit.node, each["group"]]],
        }
        for each in unit.groups
    ]
    return {**known, "asked_for": unit.is_asked, "groups": groups}
