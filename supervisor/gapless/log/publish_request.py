"""The events of one request, published once whatever becomes of its answer.

The request's key is the dedupe key of its first event; a digest of the body tells a repetition from
another request with the same key (sql/log/functions/publish/publish_request.sql).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import chain, islice
from typing import Any

import psycopg
from psycopg import Connection, Cursor
from psycopg.rows import tuple_row

from gapless.db.queries import query
from gapless.db.refused import refused
from gapless.errors import PublishError
from gapless.failpoints import hit
from gapless.features.schemas import stored as schemas
from gapless.log.event import NewEvent
from gapless.log.keyed import Published, block_of, blocks_of, key_text
from gapless.log.outgoing import outgoing, sent
from gapless.log.publish import publish_error
from gapless.log.record import columns
from gapless.log.statements import row_of


def publish_request(
    conn: Connection[Any], topic: str, events: Sequence[NewEvent], *, key: str, digest: bytes
) -> Published:
    """Publish 1 or more events as one unit, unless a request with this key has done so already.

    key: 1 to 500 characters. digest: of what was asked for. Events have no dedupe_key and no
    transaction_id of their own: these are the request's.
    Raises PublishError as publish(); RefusedError (GL422) when the key came with another digest;
    psycopg.errors.LockNotAvailable when the first request with it takes more than 5 s to commit.
    """
    if key_text(key) is None or any(e.dedupe_key or e.transaction_id for e in events):
        raise PublishError("a request has one key, and its events no dedupe_key or transaction_id")
    traced = list(outgoing(iter(events)))
    hit("publish.before")
    try:
        with sent(topic, iter(traced)), refused(), conn.cursor(row_factory=tuple_row) as cursor:
            first, scheduled_ids = _store(
                cursor, topic, traced, {"request_key": key, "digest": digest}
            )
    except (psycopg.Error, UnicodeEncodeError) as error:
        raise publish_error(error) from error
    transaction_id, is_duplicate, *_ = first
    hit("publish.after")
    return Published(
        str(transaction_id),
        duplicates=len(events) if is_duplicate else 0,
        stored=0 if is_duplicate else len(events),
        scheduled_ids=scheduled_ids,
    )


def _store(
    cursor: Cursor[Any], topic: str, events: list[Any], request: dict[str, Any]
) -> tuple[tuple[Any, ...], list[int]]:
    """Store them a block at a time; return what became of the first one, and numbers of all."""

    def ask(name: str, block: list[Any]) -> tuple[Any, ...]:
        params = block_of(topic, block, columns(block)) | request
        return row_of(cursor.execute(query("log", name), params).fetchone())

    blocks = blocks_of(iter(schemas.checked_by(cursor, topic, iter(events))))
    head = list(islice(blocks, 2))
    with cursor.connection.transaction() if len(head) > 1 else nullcontext():
        first = ask("publish_request", head[0])
        scheduled_ids = list(first[2] or ())
        for block in () if first[1] else chain(head[1:], blocks):
            scheduled_ids += ask("publish_each", block)[3] or ()
    return first, scheduled_ids
