"""A keyed merge into a Delta table, by delta-rs, with the batch's number in the same commit."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless.errors import UsageError
from gapless.failpoints import hit
from gapless.features.spark.pipeline.delta_schema import (
    Column,
    columns_of,
    explained,
    require_mergeable,
    require_same_columns,
)
from gapless.features.spark.pipeline.merge import DELETED, SEQUENCE
from gapless.features.spark.pipeline.spec import TargetSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable


class DeltaMerge:
    """A Delta table with a row for each key. It is a LakeTable."""

    def __init__(self, target: TargetSpec) -> None:
        self._target = target
        self._uri = _uri(target.where)

    def explained(self) -> AbstractContextManager[None]:
        """See LakeTable."""
        return explained(self._uri)

    def done(self, app: str) -> int | None:
        """See LakeTable."""
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(self._uri):
            return None
        return DeltaTable(self._uri).transaction_version(app)

    def fit(self, rows: pa.Table) -> None:
        """See LakeTable."""
        from deltalake import Schema

        stored = rows.drop_columns([DELETED])
        schema = json.loads(Schema.from_arrow(stored.schema).to_json())
        columns = columns_of(schema, self._target.partition_by)
        table = self._table(columns)
        require_mergeable(table)
        target = self._target
        require_same_columns(table, columns, target.partition_by, adds=target.adds_columns)

    def write(self, rows: pa.Table, app: str, number: int) -> None:
        """See LakeTable: of two merges at once, delta-rs refuses the second."""
        from deltalake import CommitProperties, DeltaTable, Transaction

        table = DeltaTable(self._uri)
        done = table.transaction_version(app)
        if done is not None and done >= number:
            return  # another run was faster
        hit("pipeline.looked")
        names = [name for name in rows.column_names if name != DELETED]
        values: dict[str, Any] = {_quoted(name): f"s.{_quoted(name)}" for name in names}
        partition, offset = map(_quoted, SEQUENCE)
        newer = (
            f"(t.{offset} is null or s.{partition} <> t.{partition} or s.{offset} >= t.{offset})"
        )
        (
            table.merge(
                rows,
                " and ".join(f"t.{_quoted(key)} = s.{_quoted(key)}" for key in self._target.key),
                source_alias="s",
                target_alias="t",
                commit_properties=CommitProperties(app_transactions=[Transaction(app, number)]),
            )
            .when_matched_delete(f"s.{DELETED} and {newer}")
            .when_matched_update(values, f"not s.{DELETED} and {newer}")
            .when_not_matched_insert(values, f"not s.{DELETED}")
            .execute()
        )

    def close(self) -> None:
        """See LakeTable: there is none."""

    def _table(self, columns: list[Column]) -> DeltaTable:
        """Return the table, created if there is none."""
        from deltalake import DeltaTable, Schema

        if not DeltaTable.is_deltatable(self._uri):
            if others := _names(self._uri):
                raise UsageError(
                    f"it is no Delta table, but holds {others[0]!r}: name one, or an empty folder"
                )
            schema = Schema.from_json(json.dumps({"type": "struct", "fields": columns}))
            parts = list(self._target.partition_by)
            DeltaTable.create(self._uri, schema=schema, partition_by=parts, mode="ignore")
        return DeltaTable(self._uri)


def _uri(where: str) -> str:
    """Return the folder as delta-rs names it: a path if it is local."""
    scheme, colon, path = where.partition(":/")
    return f"/{path.lstrip('/')}" if colon and scheme == "file" else where.rstrip("/")


def _names(uri: str) -> list[str]:
    """Return the names in a folder of this machine; none of another one."""
    path = Path(uri)
    return sorted(each.name for each in path.iterdir()) if path.is_dir() else []


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
