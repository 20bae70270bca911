"""The script of publishing: the statements that store events, and their results."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from typing import Any
from uuid import UUID

from gapless.log import keyed
from gapless.log.borrowed import PSYCOPG
from gapless.log.cause import Attribution
from gapless.log.event import GIVEN
from gapless.log.given import Events
from gapless.log.known import known_topic
from gapless.log.record import columns, is_special, key_text, record
from gapless.log.script import COPY, WHOLE, Script

_COPY_ABOVE = 200  # events: up to here one statement is faster than the round trips of a COPY
_COPY_ABOVE_BYTES = 1024 * 1024  # of payloads; a statement would make five copies of them
_AT_ONCE = ("publish_one", "publish_some", "publish_one_from", "publish_some_from")
"""The queries that need no others; around the rest, a cause is set and reset."""


def script_of(topic: str, events: Events, told: Attribution, conn: object) -> Script[UUID]:
    """Store the events through a driver's connection, checked by the known facts of the topic.

    Without psycopg's COPY no event is sent before all of them are checked.
    """
    known = yield from known_topic(conn, topic)
    events, prepare = known.checked(topic, events), known.prepare
    if isinstance(conn, PSYCOPG):
        calls = [statement_of(topic, events, told)]
    else:
        calls = [statement_of(topic, each, told, copies=False) for each in _blocks(events)]
    name, params, rest = calls[0]
    if name in _AT_ONCE and len(calls) == 1:
        return transaction_id((yield name, params, prepare))
    yield WHOLE
    tells = told and any(name not in _AT_ONCE for name, *_ in calls)
    before = (yield "tell", told, prepare) if tells else None
    rows = []
    for name, params, _ in calls:
        rows.append((yield name, params, prepare))
    if name == "publish_many":
        published = yield from _copied(topic, rows[0], rest, prepare)
    elif any(len(row) > 1 for row in rows):
        published = keyed.summed(rows)
    else:
        published = transaction_id(rows[0])
    if before is not None:
        yield "tell", told_before(before), prepare
    return published


def _copied(
    topic: str,
    row: tuple[Any, ...],
    events: Iterator[Any],
    prepare: bool | None,  # noqa: FBT001
) -> Script[UUID]:
    split = keyed.Split(events)
    count = yield COPY, split.unkeyed(partial(copied, *row[1:])), None
    rows = []
    for block in split.blocks(topic):
        rows.append((yield "publish_each", block, prepare))  # noqa: PERF401
    return keyed.summed(rows, transaction_id(row), count)


def statement_of(
    topic: str, events: Events, told: Attribution, *, copies: bool = True
) -> tuple[str, dict[str, Any], Iterator[Any]]:
    """Return the query that stores the events, its parameters, and the events left to a COPY.

    copies: large events, up to 200, may be left to it as well.
    The query's row begins with the transaction_id; that of publish_many, before a COPY, has the
    first arguments of copied().
    """
    end = "_from" if told else ""
    if isinstance(events, list):
        event: Any = events[0]
        one = {"topic": topic, **dict(zip(GIVEN, record(event), strict=True))}
        if not is_special(event):
            return f"publish_one{end}", {**one, **told}, iter(())
        key = key_text(event.dedupe_key)
        if event.deliver_at is event.deliver_in is event.to_group is event.to_subscription is None:
            return "publish_once", {**one, "dedupe_key": key}, iter(())
        return "publish_each", keyed.block_of(topic, events, columns(events)), iter(())
    head: list[Any] = list(islice(events, _COPY_ABOVE + 1))
    if len(head) > _COPY_ABOVE or (copies and _are_large(head)):
        # The events themselves: the server should not wait while their JSON is made.
        return "publish_many", {"topic": topic}, chain(head, events)
    some = columns(head)
    if any(map(is_special, head)):
        return "publish_each", keyed.block_of(topic, head, some), iter(())
    return f"publish_some{end}", {"topic": topic, **some, **told}, iter(())


def copied(topic_id: Any, caused: Any, event: object) -> tuple[Any, ...]:
    """Return the row of an event for COPY; a COPY that names a column does not use its default."""
    made = record(event)
    if caused is None or made[-1] is not None:
        return (topic_id, *made)
    return (topic_id, *made[:-1], caused)


def _are_large(events: list[Any]) -> bool:
    payloads = (getattr(event, "payload", None) for event in events)
    sizes = (len(each) for each in payloads if isinstance(each, bytes | str))
    return sum(sizes) > _COPY_ABOVE_BYTES


def _blocks(events: Events) -> Iterator[Events]:
    """Yield the events of one statement each: a single event as it is, or 200 of many."""
    if isinstance(events, list):
        yield events
        return
    block = list(islice(events, _COPY_ABOVE))
    while True:
        yield iter(block)
        block = list(islice(events, _COPY_ABOVE))
        if not block:
            return


def transaction_id(row: tuple[Any, ...]) -> UUID:
    """Return the transaction_id at the beginning of a row."""
    # The adapters of the caller's connection decide whether a UUID arrives as one.
    found: object = row[0]
    return found if type(found) is UUID else UUID(str(found))


def told_before(row: tuple[Any, ...]) -> Attribution:
    """Return the earlier cause and correlation, from the row of `tell`."""
    return {"cause": row[0], "correlation": row[1]}
