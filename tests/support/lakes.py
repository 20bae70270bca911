"""A log, and a pipeline of it into a table of Delta or Iceberg, run without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless.features.spark.fetch import ReadRequest, read_ranges
from gapless.features.spark.offsets import to_json
from gapless.features.spark.options import read_options
from gapless.features.spark.pipeline.delta_merge import DeltaMerge
from gapless.features.spark.pipeline.document import Pipeline
from gapless.features.spark.pipeline.iceberg import Iceberg
from gapless.features.spark.pipeline.lake import Lake, LakeTable, plain
from gapless.features.spark.pipeline.merge import changes_of
from gapless.features.spark.pipeline.position import MicroBatch, next_batch, register_pipeline
from gapless.features.spark.pipeline.spec import read_target
from gapless.features.spark.source import look, plan_batch
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from support.pipelines import pipeline

if TYPE_CHECKING:
    import pyarrow as pa
    from psycopg import Connection

COLUMNS = ("key", "value", "partition", "offset", "timestamp")


class LakeWorld:
    """A log of keyed events, the table that a pipeline fills, and the table's content by a model."""

    def __init__(self, conn: Connection, dsn: str, folder: Path, kind: str, mode: str) -> None:
        self.conn = conn
        self.dsn = dsn
        self.folder = folder
        self.kind = kind
        self.is_upsert = mode == "upsert"
        self.batch_events = 7
        self.catalog = {
            "name": "tests",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/warehouse",
        }
        self._written = 0

    def publish(self, *values: tuple[str, object]) -> None:
        """Publish events of such keys and payloads, a few at once; None deletes its key."""
        for first in range(0, len(values), 3):
            events = [NewEvent(payload=value, key=key) for key, value in values[first : first + 3]]
            publish(self.conn, "outbox", events)

    def target(self, **more: object) -> dict[str, object]:
        """Return the target as a file of pipelines declares it."""
        where = str(self.folder / "lake") if self.kind == "delta" else "shop.lake"
        upsert = {"mode": "upsert", "key": "key"} if self.is_upsert else {}
        catalog = {} if self.kind == "delta" else {"catalog": self.catalog}
        return {self.kind: where, **catalog, **upsert, **more}

    def pipeline(self, **more: object) -> Pipeline:
        target = read_target("to", self.target(**more))
        return pipeline(columns=COLUMNS, batch_events=self.batch_events, target=target)

    def run(
        self, transform: Callable[[pa.Table], pa.Table] = lambda rows: rows, **more: object
    ) -> int:
        """Run the pipeline until all events are done; return the number of its batches."""
        pipeline = self.pipeline(**more)
        register_pipeline(self.conn, pipeline)
        batches = 0
        while (batch := next_batch(self.conn, pipeline)).events:
            self.take(batch, transform, **more)
            batches += 1
        return batches

    def take(
        self,
        batch: MicroBatch,
        transform: Callable[[pa.Table], pa.Table] = lambda rows: rows,
        **more: object,
    ) -> None:
        pipeline = self.pipeline(**more)
        lake = Lake(pipeline, self.table(pipeline))
        lake.take(self.conn, batch, lambda: transform(self.rows_of(batch)))

    def table(self, pipeline: Pipeline) -> LakeTable:
        if self.kind == "delta":
            return DeltaMerge(pipeline.target)
        return Iceberg(pipeline.target)

    def rows_of(self, batch: MicroBatch) -> pa.Table:
        """Return the events of a batch as the source gives them."""
        start, end = json.dumps(to_json(batch.start)), json.dumps(to_json(batch.end))
        return self._read(startingOffsets=start, endingOffsets=end)

    def write_range(self, partition: int, first: int, after: int) -> None:
        """Merge events of a partition into the table, without a pipeline and its position."""
        start, end = (json.dumps({"outbox": {str(partition): n}}) for n in (first, after))
        rows = self._read(partitions=str(partition), startingOffsets=start, endingOffsets=end)
        pipeline = self.pipeline()
        changes = changes_of(plain(rows), pipeline.target)
        self._written += 1
        with closing(self.table(pipeline)) as table:
            table.fit(changes)
            table.write(changes, "by hand", self._written)

    def _read(self, **given: str) -> pa.Table:
        import pyarrow as pa

        columns = ",".join(COLUMNS)
        options = read_options(
            {"url": self.dsn, "subscribe": "outbox", "columns": columns, **given}
        )
        wanted = ReadRequest(dsn=self.dsn, columns=COLUMNS)
        tasks = plan_batch(options, look(options)).tasks
        return pa.Table.from_batches(b for task in tasks for b in read_ranges(wanted, task))

    def content(self) -> list[dict[str, Any]]:
        """Return the rows of the table, as its own readers see them."""
        if self.kind == "delta":
            from deltalake import DeltaTable

            where = str(self.folder / "lake")
            if not DeltaTable.is_deltatable(where):
                return []
            rows: list[dict[str, Any]] = DeltaTable(where).to_pyarrow_table().to_pylist()
            return rows
        from pyiceberg.exceptions import NoSuchTableError

        try:
            with self.iceberg() as table:
                found: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
                return found
        except NoSuchTableError:
            return []

    def append_by_hand(self, row: dict[str, Any]) -> None:
        """Append a row as another writer does."""
        import pyarrow as pa

        if self.kind == "delta":
            from deltalake import DeltaTable, write_deltalake

            table = DeltaTable(str(self.folder / "lake"))
            schema = table.to_pyarrow_table().schema
            write_deltalake(table, pa.Table.from_pylist([row], schema), mode="append")
        else:
            with self.iceberg() as iceberg:
                iceberg.append(pa.Table.from_pylist([row], iceberg.schema().as_arrow()))

    @contextmanager
    def iceberg(self) -> Iterator[Any]:
        from pyiceberg.catalog import load_catalog

        with load_catalog(**self.catalog) as catalog:
            yield catalog.load_table("shop.lake")

    def seen(self) -> list[tuple[str, Any]]:
        """Return key and payload of each row, in order."""
        return sorted(((row["key"], json.loads(row["value"])) for row in self.content()), key=str)


def newest(values: Iterable[tuple[str, object]]) -> list[tuple[str, object]]:
    """Return what a keyed merge of these events has: the last payload of each key, unless null."""
    last = dict(values)
    return sorted(((key, value) for key, value in last.items() if value is not None), key=str)
