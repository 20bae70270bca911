"""Publish the rows of tasks, exactly once for each (query, batch), after any number of retries.

A task publishes nothing: it sends its rows to a stage of its own (a few it hands to the driver) and
names it in its message. Spark accepts one message for each task, even if it ran several times; the
driver then publishes the rows that the messages name, and the fence (sink_batch), in one
transaction. So neither retries, nor speculation, nor a restart under another plan can double or
lose an event, and other readers see all of a batch or nothing of it.

States of a batch: staged (messages accepted) -> published, fence written (COMMIT) -> told to Spark.
Between the last two Spark may call abort(), or send the batch again: both change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import psycopg
import tenacity
from psycopg import Connection, sql

from gapless.db.connect import connect, is_transient
from gapless.db.queries import query
from gapless.db.schema import schema
from gapless.errors import PublishError
from gapless.failpoints import hit
from gapless.features.spark.events import to_csv
from gapless.features.spark.reach import connect_task

if TYPE_CHECKING:
    import pyarrow as pa

INLINE_BYTES = 256 << 10  # so much of a task's rows travels in its message, without a stage
COMMIT_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The ready rows of one task: in a stage, or, if they are few, right here as CSV."""

    part: int
    events: int
    token: UUID | None = None
    rows: bytes = b""


def stage(
    dsn: str,
    topic: str | None,
    part: int,
    batches: Iterable[pa.RecordBatch],
    identity: str | None = None,
    job: UUID | None = None,
) -> Staged:
    """Get a task's rows ready to be published; runs in Spark's tasks.

    identity: the expected database (reach.py); None: any database. job: of staging().

    After: committed in a stage of its own, or nothing was written. Again: another stage. Raises
    PublishError for rows that cannot be stored.
    """
    waiting: list[bytes] = []
    events = size = 0
    with closing(connect_task(dsn, role="spark sink", identity=identity)) as conn:
        topic_ids: dict[str, int] = dict(conn.execute(query("spark", "topic_ids")).fetchall())
        rest = iter(batches)
        for batch in rest:
            if batch.num_rows:
                waiting.append(to_csv(batch, topic, topic_ids))
                events += batch.num_rows
                size += len(waiting[-1])
            if size > INLINE_BYTES:
                more = (each for each in rest if each.num_rows)
                rows = ((to_csv(b, topic, topic_ids), b.num_rows) for b in more)
                token = uuid4() if job is None else UUID(bytes=job.bytes[:8] + uuid4().bytes[8:])
                count = _fill(conn, token, waiting, rows)
                return Staged(part=part, events=events + count, token=token)
    return Staged(part=part, events=events, rows=b"".join(waiting))


def publish_staged(dsn: str, sink_id: str, batch_id: int, messages: Sequence[Staged]) -> bool:
    """Publish the rows of the messages, unless the batch was published before; True: published now.

    After: all of it is committed, or nothing. After a COMMIT without an answer, the next try learns
    its result from the fence. Raises PublishError for rows that cannot be stored.
    """
    for attempt in tenacity.Retrying(
        retry=tenacity.retry_if_exception(is_transient),
        wait=tenacity.wait_random_exponential(multiplier=0.2, max=5),
        stop=tenacity.stop_after_attempt(COMMIT_TRIES),
        reraise=True,
    ):
        with attempt, closing(connect(dsn, role="spark sink")) as conn:
            return _publish(conn, sink_id, batch_id, messages)
    raise AssertionError


def publish_messages(conn: Connection[Any], messages: Sequence[Staged]) -> None:
    """Publish the rows of the messages in the caller's transaction, in the order of the tasks."""
    try:
        for message in sorted(messages, key=lambda each: each.part):
            if message.token is not None:
                conn.execute(
                    query("spark", "publish_stage"),
                    {"token": message.token, "events": message.events},
                )
            elif message.rows:
                with conn.cursor().copy(query("spark", "copy_into_log")) as copy:
                    copy.write(message.rows)
    except psycopg.DataError as error:
        raise _refused(error) from error


@contextmanager
def staging(conn: Connection[Any]) -> Iterator[UUID]:
    """Give the tasks of a job stages that are dropped at the end of the block, whatever it did.

    A try that fails would leave all rows of a batch for a day, and is soon followed by another.
    """
    job = uuid4()
    try:
        yield job
    finally:
        with suppress(psycopg.Error):
            conn.execute(query("spark", "drop_job_stages"), {"job": job})


def drop_stages(dsn: str, messages: Iterable[Staged | None]) -> None:
    """Drop stages that will not be published any more, and old ones of failed jobs."""
    with closing(connect(dsn, role="spark sink")) as conn:
        _drop(conn, messages)


def _publish(
    conn: Connection[Any], sink_id: str, batch_id: int, messages: Sequence[Staged]
) -> bool:
    fence = {
        "sink_id": sink_id,
        "batch_id": batch_id,
        "events": sum(message.events for message in messages),
    }
    with conn.transaction():
        (is_new,) = conn.execute(query("spark", "fence_batch"), fence).fetchone() or (False,)
        if is_new:
            publish_messages(conn, messages)
            hit("sink.published")
    hit("sink.committed")
    _drop(conn, () if is_new else messages)
    return bool(is_new)


def _drop(conn: Connection[Any], messages: Iterable[Staged | None]) -> None:
    tokens = [each.token for each in messages if each is not None and each.token is not None]
    conn.execute(query("spark", "drop_stages"), {"tokens": tokens})


def _fill(
    conn: Connection[Any], token: UUID, waiting: list[bytes], more: Iterator[tuple[bytes, int]]
) -> int:
    """Send rows to a stage of their own; return the number of rows from `more`."""
    count = 0
    with conn.transaction():
        (name,) = conn.execute(query("spark", "open_stage"), {"token": token}).fetchone() or ("",)
        copy_in = sql.SQL("copy {} from stdin (format csv)").format(sql.Identifier(schema(), name))
        try:
            with conn.cursor().copy(copy_in) as copy:
                while waiting:
                    copy.write(waiting.pop(0))
                for rows, events in more:
                    copy.write(rows)
                    count += events
        except psycopg.DataError as error:
            raise _refused(error) from error
    hit("sink.staged")
    return count


def _refused(error: psycopg.Error) -> PublishError:
    context = (error.diag.context or "").splitlines()
    where = f" ({context[-1][:200]})" if context else ""
    return PublishError(f"a row cannot be published: {error.diag.message_primary}{where}")
