"""Check that the rows of a batch fit into a Delta table. Its types are Spark's, in Spark's JSON.

A column that the table lacks may be added (addColumns); any other difference is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gapless.errors import GaplessError, UsageError

if TYPE_CHECKING:
    from deltalake import DeltaTable

Column = dict[str, Any]

_TYPES = frozenset(
    {
        *("string", "binary", "boolean", "date", "timestamp", "timestamp_ntz"),
        *("byte", "short", "integer", "long", "float", "double"),
    }
)
# A table's demands on its writers that adding files meets.
_PLAIN_WRITER = 2
_FEATURES_WRITER = 7
_KEPT = frozenset({"appendOnly", "invariants", "timestampNtz", "changeDataFeed", "deletionVectors"})
_MERGED = _KEPT - {"deletionVectors"}


def columns_of(schema: Any, partition_by: Sequence[str]) -> list[Column]:
    """Return the columns of a DataFrame as a Delta table has them: every one may be null.

    Raises UsageError for types that Delta does not have, and for missing partition columns.
    """
    columns = [
        {"name": each["name"], "type": _type(each["name"], each["type"]), **_ANY}
        for each in schema["fields"]
    ]
    names = [column["name"] for column in columns]
    for name in partition_by:
        if name not in names:
            raise UsageError(f"partitionBy: there is no column {name!r}, but {', '.join(names)}")
    if len(partition_by) == len(names):
        raise UsageError("partitionBy names every column: one at least has to be in the files")
    return columns


def require_same_columns(
    table: DeltaTable, columns: Sequence[Column], partition_by: Sequence[str], *, adds: bool
) -> DeltaTable:
    """Raise UsageError unless the table has these columns, of these types, with this partitioning.

    A column that only the table has is null in these rows. adds: columns that only these rows have
    are added to the table, which is returned anew.
    """
    there = {
        field["name"]: field["type"]
        for field in columns_of(json.loads(table.schema().to_json()), ())
    }
    for column in columns:
        name, kind = column["name"], column["type"]
        if name not in there:
            if adds:
                continue
            raise UsageError(
                f"it has no column {name!r} ({_text(kind)}), but {', '.join(there)}: "
                "let the target add it (addColumns: true), or leave it out in the transform"
            )
        if there[name] != kind:
            raise UsageError(
                f"column {name!r} is {_text(there[name])} in the table, but {_text(kind)} in "
                "these rows: cast it in the transform"
            )
    parts = table.metadata().partition_columns
    if parts != list(partition_by):
        raise UsageError(
            f"it is partitioned by {', '.join(parts) or 'nothing'}, not by "
            f"{', '.join(partition_by) or 'nothing'}: partitionBy has to say the same"
        )
    missing = [column for column in columns if column["name"] not in there]
    return _with(table, missing) if missing else table


def require_mergeable(table: DeltaTable) -> None:
    """Raise UsageError for a table that forbids, or does not allow delta-rs, to replace rows."""
    require_writable(table, _MERGED)
    if table.metadata().configuration.get("delta.appendOnly") == "true":
        raise UsageError("its rows may only be appended (delta.appendOnly), not merged")


@contextmanager
def explained(where: str) -> Iterator[None]:
    """Explain in one sentence any error of the table."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except GaplessError as error:
        raise type(error)(f"Delta table {where}: {error}") from None
    except (DeltaError, OSError, ValueError) as error:
        line = " ".join(str(error).split())
        raise GaplessError(f"Delta table {where}: {line[:400]}") from error


def require_writable(table: DeltaTable, kept: frozenset[str] = _KEPT) -> None:
    """Raise UsageError for a table that only a complete Delta engine can write to.

    kept: demands on writers that are met.
    """
    protocol = table.protocol()
    if protocol.min_writer_version <= _PLAIN_WRITER:
        wanted = set()
    elif protocol.min_writer_version == _FEATURES_WRITER:
        wanted = set(protocol.writer_features or ()) - kept
    else:
        wanted = {f"writer version {protocol.min_writer_version}"}
    wanted |= {"NOT NULL" for field in table.schema().fields if not field.nullable}
    if wanted:
        raise UsageError(
            f"it asks of its writers what gapless does not do: {', '.join(sorted(wanted))}; "
            "name another folder"
        )


def _with(table: DeltaTable, columns: Sequence[Column]) -> DeltaTable:
    """Add columns to a table, in a commit of its own; they are null in the rows it has."""
    from deltalake import DeltaTable
    from deltalake.schema import Field

    table.alter.add_columns([Field.from_json(json.dumps(column)) for column in columns])
    return DeltaTable(table.table_uri)


_ANY = {"nullable": True, "metadata": {}}


def _type(column: str, kind: Any) -> Any:
    """Return a type without its nullability. Raises UsageError if Delta does not have it."""
    if isinstance(kind, str):
        if kind in _TYPES or kind.startswith("decimal("):
            return kind
        raise UsageError(f"column {column!r} is {kind}, which Delta has not: cast it")
    if kind["type"] == "array":
        return {
            "type": "array",
            "elementType": _type(column, kind["elementType"]),
            "containsNull": True,
        }
    if kind["type"] == "map":
        return {
            "type": "map",
            "keyType": _type(column, kind["keyType"]),
            "valueType": _type(column, kind["valueType"]),
            "valueContainsNull": True,
        }
    if kind["type"] == "struct":
        fields = [
            {"name": each["name"], "type": _type(column, each["type"]), **_ANY}
            for each in kind["fields"]
        ]
        return {"type": "struct", "fields": fields}
    raise UsageError(f"column {column!r} is {kind['type']}, which Delta has not: cast it")


def _text(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind["type"])
