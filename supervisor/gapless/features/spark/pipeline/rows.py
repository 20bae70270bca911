"""Rows of a DataFrame on their way into a transaction: each task hands them over, or stages them.

Spark accepts one result for each task, even if it ran several times, so the rows of a lost attempt
are never used: that makes retries and speculation harmless.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from psycopg import sql

from gapless.features.spark.reach import Reached, connect_task
from gapless.features.spark.sink import INLINE_BYTES, Staged, stage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

ROLE = "spark pipeline"  # of the sessions of tasks
_RESULT = "part INT, events BIGINT, token STRING, rows BINARY"


def collect_staged(df: DataFrame, handed: Callable[[int, Any], Staged]) -> list[Staged]:
    """Run `handed` for each partition of `df` in Spark's tasks; return the accepted results."""
    found = df.mapInArrow(_task(handed), _RESULT).collect()
    return [
        Staged(
            part=row.part,
            events=row.events,
            token=UUID(row.token) if row.token else None,
            rows=bytes(row.rows or b""),
        )
        for row in found
    ]


def stage_events(df: DataFrame, where: Reached, topic: str, job: UUID) -> list[Staged]:
    """Stage the rows of `df` as events of a topic. job: of staging()."""
    return collect_staged(
        df, lambda part, batches: stage(where.dsn, topic, part, batches, where.identity, job)
    )


def stage_rows(df: DataFrame, where: Reached, table: sql.Composable) -> list[Staged]:
    """Stage the rows of `df` in `table` under each attempt's token; hand a few rows on instead."""
    return collect_staged(df, lambda part, batches: stage_part(where, table, part, batches))


def _task(handed: Callable[[int, Any], Staged]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        done = handed(context.partitionId() if context else 0, batches)
        yield pa.RecordBatch.from_pydict(
            {
                "part": pa.array([done.part], pa.int32()),
                "events": pa.array([done.events], pa.int64()),
                "token": pa.array([str(done.token) if done.token else None], pa.string()),
                "rows": pa.array([done.rows], pa.binary()),
            }
        )

    return run


def stage_part(
    where: Reached, table: sql.Composable, part: int, batches: Iterable[pa.RecordBatch]
) -> Staged:
    """Hand a few rows on as CSV; send many to `table`, in one transaction."""
    waiting: list[bytes] = []
    events = size = 0
    rest = iter(batches)
    token = uuid4()
    for batch in rest:
        waiting.append(_csv(batch, token))
        events += batch.num_rows
        size += len(waiting[-1])
        if size > INLINE_BYTES:
            break
    else:
        return Staged(part=part, events=events, token=token, rows=b"".join(waiting))
    copy_in = sql.SQL("copy {} from stdin (format csv)").format(table)
    conn = connect_task(where.dsn, role=ROLE, identity=where.identity)
    with closing(conn), conn.cursor().copy(copy_in) as copy:
        for rows in waiting:
            copy.write(rows)
        for batch in rest:
            copy.write(_csv(batch, token))
            events += batch.num_rows
    return Staged(part=part, events=events, token=token)


def _csv(batch: pa.RecordBatch, token: UUID) -> bytes:
    """Return rows as CSV for COPY, the token in front."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    if not batch.num_rows:
        return b""
    tokens = pa.array([str(token)]).take(pa.array([0] * batch.num_rows))
    made = pa.RecordBatch.from_arrays(
        [tokens, *batch.columns], names=["token", *batch.schema.names]
    )
    out = io.BytesIO()
    options = pa_csv.WriteOptions(include_header=False, quoting_style="all_valid")
    pa_csv.write_csv(made, out, options)
    return out.getvalue()
