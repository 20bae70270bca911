"""What a replay would do: which events, with which handler, and where its effects would be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gapless.cli.screen import say, show
from gapless.ops.replay.plan import Range
from gapless.ops.text import count, to_json

if TYPE_CHECKING:
    from psycopg import Connection

    from gapless.consume.handler import Handler
    from gapless.consume.terms import Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A line of the preview: a partition that has something in range; both offsets inclusive."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    events: int
    first_event: datetime | None
    last_event: datetime | None


def show_preview(
    conn: Connection[Any],
    handler: Handler,
    terms: Terms,
    found: Sequence[Range],
    *,
    as_json: bool,
) -> None:
    """Print what would be handled, how, and with which effects."""
    lines = [
        _Line(
            topic=terms.topic,
            partition=each.partition_id,
            first_offset=each.start_offset,
            last_offset=each.stop_offset - 1,
            events=each.events,
            first_event=each.first_event,
            last_event=each.last_event,
        )
        for each in found
        if each.events
    ]
    server = f"{conn.info.host}:{conn.info.port}"
    if as_json:
        document = {
            "handler": handler.name,
            "topic": terms.topic,
            "events": sum(each.events for each in lines),
            "partitions": [asdict(each) for each in lines],
            "delivery": terms.delivery,
            "database": conn.info.dbname,
            "server": server,
            "batch": handler.batch,
            "batch_size": terms.batch_size,
            "group_by": terms.group_by,
        }
        say(to_json(document, indent=2))
        return
    call = (
        "one call for each claim" if handler.batch else f"one call for each {_UNIT[terms.group_by]}"
    )
    say(f"handler: {handler.name}, {call}; claims of {count(terms.batch_size, 'event')}")
    say(
        f'effects: exactly once in database "{conn.info.dbname}" of the server at {server}, as far '
        "as it uses the connection it is given; what it does elsewhere is done again"
    )
    if lines:
        show(_Line, lines, as_json=False)


_UNIT = {"transaction": "transaction", "user": "run of a user's events"}
