"""A unit set aside as lines or JSON: its error, its events, and the units parked behind it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from gapless.ops.dlq.find import DlqDetails
from gapless.ops.dlq.records import DlqEvent, DlqUnit, ParkedAhead, ParkedBehind
from gapless.ops.dlq.transfer import unit_json
from gapless.ops.place import spell
from gapless.ops.text import cell, json_text, plain, quantity, safe_json, stamp

_BEHIND_MAX = 20
_JSON_FIELDS = ("headers", "payload")


def unit_lines(found: DlqDetails) -> Iterator[str]:
    """Yield all facts about a unit, harmless on a terminal; a line may hold line breaks."""
    unit, events = found.unit, found.events
    yield from _facts(unit, found.behind, _place(unit, found.ahead) if found.ahead else "?")
    for each in found.same_transaction:
        yield _fact("elsewhere", plain(str(each)))
    for event in events:
        yield from _event(event, alone=len(events) == 1)
    if unit.events > len(events):
        yield f"\n... and {quantity(unit.events - len(events), 'more event')}"
    yield "\nerror" + (f" (SQLSTATE {unit.sqlstate})" if unit.sqlstate else "")
    yield _indented("\n".join(plain(line) for line in unit.exception.splitlines()))


def details_json(found: DlqDetails) -> str:
    """Write all facts about a unit as one JSON object."""
    unit = found.unit
    own = [each.offset for each in found.behind if each.partition == unit.partition]
    others = [_place(unit, each) for each in found.behind if each.partition != unit.partition]
    of_same = [asdict(each) for each in found.same_transaction]
    more = {"behind": own, "behind_elsewhere": others, "same_transaction": of_same}
    return unit_json(unit, found.events, **more)


def _facts(unit: DlqUnit, behind: Sequence[ParkedBehind], ahead: str) -> Iterator[str]:
    last = f" to {unit.last_offset}" if unit.events > 1 else ""
    yield f"dead letter {unit.place}{last}"
    yield _fact("state", _state(unit, ahead))
    yield _fact("events", f"{unit.events:,} of transaction {unit.transaction_id}")
    yield _fact("attempts", f"{unit.attempts}, first {stamp(unit.first_failed)}")
    took = f", after {unit.duration_ms:,.0f} ms" if unit.duration_ms is not None else ""
    yield _fact("last failed", f"{stamp(unit.failed)}{took}")
    if unit.crashes:
        yield _fact("crashes", str(unit.crashes))
    if unit.worker:
        yield _fact("worker", plain(unit.worker))
    if unit.redriven and unit.state != "redriven":
        yield _fact("redriven", f"{stamp(unit.redriven)} by {cell(unit.redriven_by)}")
    if behind:
        places = ", ".join(
            str(row.offset) if row.partition == unit.partition else _place(unit, row)
            for row in behind[:_BEHIND_MAX]
        )
        more = ", ..." if len(behind) > _BEHIND_MAX else ""
        events = quantity(sum(row.events for row in behind), "event")
        yield _fact("parked behind", f"{quantity(len(behind), 'unit')}, {events}: {places}{more}")
    else:
        yield _fact("parked behind", "nothing")


def _state(unit: DlqUnit, ahead: str) -> str:
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


def _event(event: DlqEvent, *, alone: bool) -> Iterator[str]:
    if not alone:
        yield f"\nevent at offset {event.offset}"
    for name in ("key", "event_type", "host_id", "user_id"):
        value = getattr(event, name)
        if value is not None:
            yield _fact(name, cell(value))
    yield _fact("published", f"{stamp(event.published)} (message_id {event.message_id})")
    for name in _JSON_FIELDS:
        text = getattr(event, name)
        if text is not None:
            yield f"\n{name}"
            yield _indented(_pretty(text))


def _place(unit: DlqUnit, other: ParkedAhead | ParkedBehind) -> str:
    return spell(unit.group, unit.topic, other.partition, other.offset)


def _fact(name: str, text: str) -> str:
    return f"  {name:<15} {text}"


def _pretty(text: str) -> str:
    """Indent JSON; leave values that Python cannot hold as they are."""
    try:
        return json_text(json.loads(text), indent=2)
    except (ValueError, RecursionError):
        return safe_json(text)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
