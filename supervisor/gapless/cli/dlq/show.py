"""`dlq list` and `dlq show`: a table of units; one unit, its error, and what waits behind it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gapless.cli.context import open_connection
from gapless.cli.dlq.filters import (
    Ahead,
    Behind,
    Kin,
    LetterEvent,
    Unit,
    UnitRow,
    events_of,
    find,
    require,
)
from gapless.cli.place import spell
from gapless.cli.screen import cell, say, show
from gapless.db.queries import query
from gapless.ops.rows import rows
from gapless.ops.text import count, plain, safe_json, stamp, to_json

if TYPE_CHECKING:
    from psycopg import Connection

_EVENTS_MAX = 50
_BEHIND_MAX = 20
_JSON_FIELDS = ("headers", "payload")


def list_units(args: argparse.Namespace) -> int:
    """Print the units that the filters choose."""
    with open_connection(args, "dlq") as conn:
        found = find(conn, args, limit=args.limit)
    show(UnitRow, found, as_json=args.json, empty="no dead letters")
    return 0


def show_unit(args: argparse.Namespace) -> int:
    """Print one unit."""
    with open_connection(args, "dlq") as conn:
        unit = require(conn, args.place)
        events = events_of(conn, unit, limit=_EVENTS_MAX)
        behind = rows(conn, Behind, query("dlq", "behind"), **unit.where)
        kin = rows(conn, Kin, query("dlq", "kin"), **unit.where, transaction=unit.transaction_id)
        ahead = ahead_of(conn, unit)
    if args.json:
        own = [row.offset for row in behind if row.partition == unit.partition]
        others = [_place(unit, row) for row in behind if row.partition != unit.partition]
        of_same = [asdict(each) for each in kin]
        say(unit_json(unit, events, behind=own, behind_elsewhere=others, same_transaction=of_same))
        return 0
    for line in _lines(unit, behind, ahead):
        say(line)
    for each in kin:
        say(_line("elsewhere", plain(str(each))))
    for event in events:
        _print_event(event, alone=len(events) == 1)
    if unit.events > len(events):
        say(f"\n... and {count(unit.events - len(events), 'more event')}")
    say("\nerror" + (f" (SQLSTATE {unit.sqlstate})" if unit.sqlstate else ""))
    say(_indented("\n".join(plain(line) for line in unit.exception.splitlines())))
    return 0


def ahead_of(conn: Connection[Any], unit: Unit) -> str:
    """Return the place of the unit that a parked one waits for."""
    found = rows(conn, Ahead, query("dlq", "ahead"), **unit.where)
    return _place(unit, found[0]) if found else "?"


def unit_json(unit: Unit, events: Sequence[LetterEvent], **more: object) -> str:
    """Write a unit as one JSON object; payloads and headers stay the producer's own text."""
    known = asdict(unit)
    known["events_count"] = known.pop("events")
    head = to_json({**known, **more})[:-1]
    return f'{head}, "events": [{", ".join(map(_event_json, events))}]}}'


def _event_json(event: LetterEvent) -> str:
    known = {name: value for name, value in asdict(event).items() if name not in _JSON_FIELDS}
    # On one line: raw line breaks stand only between the tokens of a JSON text.
    tail = ", ".join(
        f'"{name}": {_one_line(getattr(event, name) or "null")}' for name in _JSON_FIELDS
    )
    return f"{to_json(known)[:-1]}, {tail}}}"


def _one_line(text: str) -> str:
    return safe_json(text).translate(str.maketrans("\r\n\t", "   "))


def _lines(unit: Unit, behind: Sequence[Behind], ahead: str) -> Iterator[str]:
    last = f" to {unit.last_offset}" if unit.events > 1 else ""
    yield f"dead letter {unit.place}{last}"
    yield _line("state", _state(unit, ahead))
    yield _line("events", f"{unit.events:,} of transaction {unit.transaction_id}")
    yield _line("attempts", f"{unit.attempts}, first {stamp(unit.first_failed)}")
    took = f", after {unit.duration_ms:,.0f} ms" if unit.duration_ms is not None else ""
    yield _line("last failed", f"{stamp(unit.failed)}{took}")
    if unit.crashes:
        yield _line("crashes", str(unit.crashes))
    if unit.worker:
        yield _line("worker", plain(unit.worker))
    if unit.redriven and unit.state != "redriven":
        yield _line("redriven", f"{stamp(unit.redriven)} by {cell(unit.redriven_by)}")
    if behind:
        places = ", ".join(
            str(row.offset) if row.partition == unit.partition else _place(unit, row)
            for row in behind[:_BEHIND_MAX]
        )
        more = ", ..." if len(behind) > _BEHIND_MAX else ""
        events = count(sum(row.events for row in behind), "event")
        yield _line("parked behind", f"{count(len(behind), 'unit')}, {events}: {places}{more}")
    else:
        yield _line("parked behind", "nothing")


def _state(unit: Unit, ahead: str) -> str:
    if unit.state == "waiting" and unit.next_attempt:
        return f"waiting for its next attempt, {stamp(unit.next_attempt)}"
    if unit.state == "parked":
        return f"parked behind {ahead}"
    if unit.state == "redriven" and unit.closed:
        return f"redriven by {cell(unit.redriven_by)}: handled {stamp(unit.closed)}"
    if unit.state == "discarded" and unit.closed:
        reason = plain(unit.discard_reason or "")
        return f"discarded by {cell(unit.discarded_by)}, {stamp(unit.closed)}: {reason}"
    return unit.state


def _print_event(event: LetterEvent, *, alone: bool) -> None:
    if not alone:
        say(f"\nevent at offset {event.offset}")
    for name in ("key", "event_type", "host_id", "user_id"):
        value = getattr(event, name)
        if value is not None:
            say(_line(name, cell(value)))
    say(_line("published", f"{stamp(event.published)} (message_id {event.message_id})"))
    for name in _JSON_FIELDS:
        text = getattr(event, name)
        if text is not None:
            say(f"\n{name}")
            say(_indented(_pretty(text)))


def _place(unit: Unit, other: Ahead | Behind) -> str:
    return spell(unit.group, unit.topic, other.partition, other.offset)


def _line(name: str, text: str) -> str:
    return f"  {name:<15} {text}"


def _pretty(text: str) -> str:
    """Indent JSON; leave what Python cannot hold as it is."""
    try:
        return to_json(json.loads(text), indent=2)
    except (ValueError, RecursionError):
        return safe_json(text)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
