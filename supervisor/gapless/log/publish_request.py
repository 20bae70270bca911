"""The events of one request, published once even if its answer is lost.

The request's key is the dedupe key of its first event; a digest of the body tells a repetition from
another request with the same key (sql/log/functions/publish/publish_request.sql).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain, islice
from typing import Any

from psycopg import Connection

from gapless.errors import PublishError
from gapless.log.event import NewEvent
from gapless.log.keyed import Published, block_of, blocks_of
from gapless.log.known import known_topic
from gapless.log.outgoing import outgoing
from gapless.log.play import play
from gapless.log.publish import Publishing
from gapless.log.record import columns, key_text
from gapless.log.script import WHOLE, Asked, Script


def publish_request(
    conn: Connection[Any], topic: str, events: Sequence[NewEvent], *, key: str, digest: bytes
) -> Published:
    """Publish 1 or more events as one unit, unless a request with this key has done so already.

    key: 1 to 500 characters. digest: of the request's body. The events have no dedupe_key and no
    transaction_id of their own: the request has both.
    Raises PublishError as publish(); RefusedError (GL422) when the key came with another digest;
    psycopg.errors.LockNotAvailable when the first request with it takes more than 5 s to commit.
    """
    if key_text(key) is None or any(e.dedupe_key or e.transaction_id for e in events):
        raise PublishError("a request has one key, and its events no dedupe_key or transaction_id")
    traced: list[Any] = list(outgoing(iter(events)))
    script = partial(_stored, topic, traced, {"request_key": key, "digest": digest})
    published: Published = play(conn, script, Publishing(topic, iter(traced)))
    return published


def _stored(
    topic: str, events: list[Any], request: dict[str, Any], conn: object
) -> Script[Published]:
    """Store the events in blocks; the answer to the first tells whether it is a repetition."""
    known = yield from known_topic(conn, topic)

    def asked(name: str, block: list[Any]) -> Asked:
        return name, block_of(topic, block, columns(block)) | request, known.prepare

    blocks = blocks_of(iter(known.checked(topic, iter(events))))
    head = list(islice(blocks, 2))
    if len(head) > 1:
        yield WHOLE
    transaction_id, is_duplicate, numbers = yield asked("publish_request", head[0])
    scheduled_ids = list(numbers or ())
    for block in () if is_duplicate else chain(head[1:], blocks):
        *_, more = yield asked("publish_each", block)
        scheduled_ids += more or ()
    return Published(
        str(transaction_id),
        duplicates=len(events) if is_duplicate else 0,
        stored=0 if is_duplicate else len(events),
        scheduled_ids=scheduled_ids,
    )
