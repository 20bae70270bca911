"""The live console's view of units set aside: it does the same as `gapless dlq`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gapless.ops.dlq.change import redrive_unit
from gapless.ops.dlq.find import DlqFilter, list_units, show_unit
from gapless.ops.dlq.lines import unit_lines
from gapless.ops.place import GroupPlace
from gapless.status.console import Letters
from gapless.status.view import At, LetterLine

if TYPE_CHECKING:
    from psycopg import Connection

_UNITS_MAX = 200
_EVENTS_MAX = 20
_CHARACTERS_MAX = 100_000  # of a unit's text: gapless dlq show prints more


def _place(at: At) -> GroupPlace:
    group, topic, partition, *rest = at
    return GroupPlace(
        group=str(group),
        topic=str(topic),
        partition=int(partition),
        offset=int(rest[0]) if rest else None,
    )


def _list(conn: Connection[Any], at: At) -> Sequence[LetterLine]:
    place = _place(at)
    wanted = DlqFilter(group=place.group, topic=place.topic, partition=place.partition)
    return [
        LetterLine(
            offset=unit.offset,
            events=unit.events,
            state=unit.state,
            attempts=unit.attempts,
            failed_ts=unit.failed,
            key=unit.key,
            error=unit.error,
        )
        for unit in list_units(conn, wanted, limit=_UNITS_MAX)
    ]


def _show(conn: Connection[Any], at: At) -> str:
    place = _place(at)
    text = "\n".join(unit_lines(show_unit(conn, place, events_max=_EVENTS_MAX)))
    if len(text) <= _CHARACTERS_MAX:
        return text
    return f"{text[:_CHARACTERS_MAX]}\n\n... gapless dlq show {place} has the rest"


def _redrive(conn: Connection[Any], at: At) -> str:
    done = redrive_unit(conn, _place(at))
    if done.outcome == "asked":
        return f"{done.place} is asked to be handled again: it is the next its worker takes"
    return f"{done.place} was left alone: {done.outcome}"


LETTERS = Letters(list=_list, show=_show, redrive=_redrive)
