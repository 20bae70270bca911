"""A table in the log's own database: a batch's rows and the pipeline's position are one commit.

key: a row with the same key is replaced, but its columns in `add` are added to, those in `min` and
`max` keep the lowest and the highest value, and those in `avg` are the quotient of two others.
Without a key, rows are only inserted. The transform returns each key once in a batch: it
aggregates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg
from psycopg import Connection, sql

from gapless.db.queries import query
from gapless.db.schema import schema
from gapless.errors import UsageError
from gapless.failpoints import hit
from gapless.features.spark.pipeline.document import Pipeline
from gapless.features.spark.pipeline.isolate import RowsError
from gapless.features.spark.pipeline.position import MicroBatch, end_batch
from gapless.features.spark.pipeline.rows import ROLE, stage_rows
from gapless.features.spark.pipeline.spec import TargetSpec
from gapless.features.spark.reach import Reached
from gapless.features.spark.sink import Staged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TOKEN = sql.Identifier("gapless_token")


class Table:
    """The table a pipeline writes to, and the unlogged one beside it that tasks send rows to."""

    def __init__(
        self, pipeline: Pipeline, where: Reached, stage: sql.Identifier | None = None
    ) -> None:
        self._pipeline = pipeline
        self._where = where
        self._table = sql.Identifier(*pipeline.target.where.rsplit(".", 1))
        self.stage = stage or stage_of(pipeline.name, pipeline.target.where)

    def begin(self, conn: Connection[Any]) -> None:
        """Do nothing: the stage is created anew for each batch."""

    def bring(
        self, conn: Connection[Any], batch: MicroBatch, frame: Callable[[], DataFrame]
    ) -> None:
        """See Target."""
        df = frame()
        rows = self.write(conn, df)
        hit("pipeline.written")
        self.finish(conn, batch, df.columns, rows)

    def write(self, conn: Connection[Any], df: DataFrame) -> list[Staged]:
        """Send a batch's rows to the stage. Raises UsageError as prepare() does."""
        self.prepare(conn, df.columns)
        return stage_rows(df, self._where, self.stage)

    def prepare(self, conn: Connection[Any], columns: Sequence[str]) -> None:
        """Create the stage anew: old rows, and tasks that send some, are from lost runs.

        Raises UsageError for a table that is not there, or has other columns.
        """
        self._check(columns)
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        with explained(self._pipeline):
            _drop(conn, self.stage)
            conn.execute(
                sql.SQL(
                    "create unlogged table {} as select null::uuid as {}, {} from {} with no data"
                ).format(self.stage, _TOKEN, names, self._table)
            )

    def finish(
        self, conn: Connection[Any], batch: MicroBatch, columns: Sequence[str], staged: list[Staged]
    ) -> None:
        """Bring the rows into the table and move the pipeline, in one transaction."""
        with explained(self._pipeline), conn.transaction():
            self.merge(conn, columns, staged)
            hit("pipeline.applied")
            end_batch(conn, self._pipeline.name, batch)
        hit("pipeline.done")

    def probe(self, conn: Connection[Any], df: DataFrame) -> None:
        """See Probing."""
        rows = self.write(conn, df)
        with explained(self._pipeline), conn.transaction(force_rollback=True):
            self.merge(conn, df.columns, rows)

    def merge(self, conn: Connection[Any], columns: Sequence[str], staged: list[Staged]) -> None:
        """Bring the rows into the table, in the caller's transaction."""
        copy_in = sql.SQL("copy {} from stdin (format csv)").format(self.stage)
        with explained(self._pipeline):
            for each in staged:
                if each.rows:
                    with conn.cursor().copy(copy_in) as copy:
                        copy.write(each.rows)
            tokens = [each.token for each in staged]
            self._require_keys(conn, tokens)
            merged = conn.execute(self._merge(columns), {"tokens": tokens}).rowcount
            sent = sum(each.events for each in staged)
            if merged != sent:
                raise UsageError(
                    f"stage {merged} of {sent} rows: the server has crashed since they were sent; "
                    "run the pipeline again"
                )
            conn.execute(sql.SQL("drop table {}").format(self.stage))
            # A deferred one would refuse the rows at COMMIT only, where probe() never comes.
            conn.execute("set constraints all immediate")

    def _check(self, columns: Sequence[str]) -> None:
        target = self._pipeline.target
        for name in (*target.key, *target.add, *target.lowest, *target.highest):
            if name not in columns:
                raise UsageError(
                    f"pipeline {self._pipeline.name}: the transform gives no column {name!r}, "
                    f"which key, add, min, max or avg names; it gives {', '.join(columns)}"
                )
        for name in target.means:
            if name in columns:
                raise UsageError(
                    f"pipeline {self._pipeline.name}: the transform gives the column {name!r}, "
                    "which avg makes of two others: leave it out"
                )

    def _require_keys(self, conn: Connection[Any], tokens: list[UUID | None]) -> None:
        """Raise RowsError for a row without its key: it would be inserted, not merged."""
        key = self._pipeline.target.key
        if not key:
            return
        without = sql.SQL(" or ").join(sql.SQL("{} is null").format(sql.Identifier(k)) for k in key)
        (rows,) = conn.execute(
            sql.SQL("select count(*) from {} where {} = any (%s) and ({})").format(
                self.stage, _TOKEN, without
            ),
            [tokens],
        ).fetchone() or (0,)
        if rows:
            raise RowsError(
                f"table {self._pipeline.target.where}: of {rows} rows {' or '.join(key)} is null, "
                f"the key by which they are merged: a check can keep such events out"
            )

    def _merge(self, columns: Sequence[str]) -> sql.Composed:
        target = self._pipeline.target
        names = sql.SQL(", ").join(map(sql.Identifier, (*columns, *target.means)))
        values = sql.SQL(", ").join(
            [
                *map(sql.Identifier, columns),
                *(_quotient(*map(sql.Identifier, parts)) for parts in target.means.values()),
            ]
        )
        insert = sql.SQL(
            "insert into {} as t ({}) select {} from {} where {} = any (%(tokens)s)"
        ).format(self._table, names, values, self.stage, _TOKEN)
        if not target.key:
            return insert
        changes = [_change(name, target) for name in columns if name not in target.key]
        changes += [
            sql.SQL("{} = {}").format(
                sql.Identifier(name), _quotient(*(_merged(part, target) for part in parts))
            )
            for name, parts in target.means.items()
        ]
        # A key alone: nothing to change, but the row counts as written.
        changes = changes or [_change(target.key[0], target)]
        keys = sql.SQL(", ").join(map(sql.Identifier, target.key))
        return insert + sql.SQL(" on conflict ({}) do update set {}").format(
            keys, sql.SQL(", ").join(changes)
        )


@contextmanager
def explained(pipeline: Pipeline) -> Iterator[None]:
    """Explain a mismatch of the table and the rows. Raises UsageError in one sentence."""
    target = pipeline.target
    try:
        yield
    except psycopg.errors.UndefinedTable as error:
        raise UsageError(f"table {target.where} does not exist: create it first") from error
    except psycopg.errors.InvalidSchemaName as error:
        raise UsageError(
            f"table {target.where}: {error.diag.message_primary}: the schema has to exist, and "
            "this role needs the right to CREATE in it, where rows are staged"
        ) from error
    except psycopg.errors.CardinalityViolation as error:
        raise UsageError(
            f"the transform of {pipeline.name} gives a key twice in a batch: "
            f"aggregate by {', '.join(target.key)}"
        ) from error
    except psycopg.errors.InvalidColumnReference as error:
        raise UsageError(
            f"table {target.where} needs a primary key or unique index of "
            f"exactly ({', '.join(target.key)})"
        ) from error
    except (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError) as error:
        context = (error.diag.context or "").splitlines()
        place = f" ({context[-1][:200]})" if context else ""
        raise UsageError(
            f"table {target.where}: {error.diag.message_primary or error}{place}"
        ) from error


def drop_stage(conn: Connection[Any], stage: sql.Identifier) -> str | None:
    """Drop the staged rows of an interrupted run; return the stage's name if that is refused."""
    try:
        _drop(conn, stage)
    except psycopg.errors.InsufficientPrivilege:
        return stage.as_string(conn)
    except psycopg.errors.InvalidSchemaName:
        return None  # it was dropped with its schema
    return None


def _drop(conn: Connection[Any], stage: sql.Identifier) -> None:
    tasks = {"stage": stage.as_string(conn), "application": f"{schema()}/{ROLE}"}
    conn.execute(query("spark", "end_tasks"), tasks)
    conn.execute(sql.SQL("drop table if exists {}").format(stage))


def stage_of(name: str, where: str) -> sql.Identifier:
    """Return the table beside the target that receives the rows of the tasks of this pipeline."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return beside(where, f"{schema()}_stage_{digest}")


def beside(where: str, name: str) -> sql.Identifier:
    """Return the table `name` in the schema of the table `where`."""
    there, _, _ = where.rpartition(".")
    return sql.Identifier(*([there] if there else []), name)


def _change(name: str, target: TargetSpec) -> sql.Composed:
    return sql.SQL("{} = {}").format(sql.Identifier(name), _merged(name, target))


def _merged(name: str, target: TargetSpec) -> sql.Composed:
    """Return the value of a column after the merge; a null is no value."""
    text = "excluded.{0}"
    if name in target.add:
        text = "(coalesce(t.{0}, 0) + coalesce(excluded.{0}, 0))"
    elif name in target.lowest:
        text = "least(t.{0}, excluded.{0})"
    elif name in target.highest:
        text = "greatest(t.{0}, excluded.{0})"
    return sql.SQL(text).format(sql.Identifier(name))


def _quotient(total: sql.Composable, count: sql.Composable) -> sql.Composed:
    """Return a mean: of whole numbers it is no whole number; of none it is null."""
    return sql.SQL("{} * 1.0 / nullif({}, 0)").format(total, count)
