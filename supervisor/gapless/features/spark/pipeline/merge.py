"""The changes of a keyed merge: of a batch's rows the newest of each key, by its offset.

An event's offset is the sequence: of two rows of a key and a partition, the one with the higher
offset counts, in a batch, and against the row in the table. So a batch that comes twice changes
nothing, and an older event never replaces a newer one. A key has another partition only after the
number of partitions was changed: then the time of publishing decides within a batch, and the later
batch against the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gapless.errors import UsageError
from gapless.features.spark.pipeline.spec import TargetSpec

if TYPE_CHECKING:
    import pyarrow as pa

SEQUENCE = ("partition", "offset")  # columns that a table of merges has, beside its key
DELETED = "gapless_deleted"
_VALUE = "value"
_TIME = "timestamp"
_ROW = "gapless_row"


def changes_of(rows: pa.Table, target: TargetSpec) -> pa.Table:
    """Return the newest row of each key, and in the column DELETED whether it deletes the key.

    Raises UsageError in one sentence for rows without a key, a sequence, or a sign of deletes.
    """
    import pyarrow as pa

    _require_columns(rows, (*target.key, *SEQUENCE))
    deleted = _deleted(rows, target.delete)
    _require_keys(rows, target.key)
    if target.delete is not None:
        rows = rows.drop_columns([target.delete])
    rows = rows.append_column(DELETED, pa.chunked_array(deleted, pa.bool_()))
    try:
        return _newest(rows, target.key)
    except pa.ArrowNotImplementedError as error:
        raise UsageError(
            f"key {', '.join(target.key)}: {' '.join(str(error).split())[:200]}: cast it"
        ) from error


def newer(changes: pa.Table, there: pa.Table, key: Sequence[str]) -> pa.Table:
    """Leave out the changes that are older than the rows that a table has of their keys.

    there: key and sequence of these rows, with the types of the changes.
    """
    import numpy as np
    import pyarrow as pa

    if not there.num_rows:
        return changes
    pairs = _numbered(changes, key).join(
        _numbered(there, key), list(key), join_type="inner", right_suffix="_there"
    )
    ours = changes.select(SEQUENCE).take(pairs[_ROW])
    theirs = there.select(SEQUENCE).take(pairs[f"{_ROW}_there"])
    older = ours["partition"].to_numpy() == theirs["partition"].fill_null(-1).to_numpy()
    older &= ours["offset"].to_numpy() < theirs["offset"].fill_null(-1).to_numpy()
    keep = np.ones(changes.num_rows, dtype=bool)
    keep[pairs[_ROW].to_numpy()[older]] = False
    return changes.filter(pa.array(keep))


def rows_of(table: pa.Table, keyed: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the rows of a table that have one of the keys of another."""
    return table.join(keyed.select(key), list(key), join_type="left semi")


def keys_in(changes: pa.Table, there: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the keys of the changes that a table has."""
    return rows_of(changes.select(key), there, key)


def _numbered(table: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the columns of the key, and the number of each row in the column _ROW."""
    import numpy as np
    import pyarrow as pa

    return table.select(list(key)).append_column(_ROW, pa.array(np.arange(table.num_rows)))


def _newest(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the last row of each key: in a partition by offset, of several by their time."""
    found = _last(rows, (*key, "partition"), ("offset",))
    once = _last(found, key, (_TIME, "offset") if _TIME in rows.column_names else ("offset",))
    if once.num_rows < found.num_rows and _TIME not in rows.column_names:
        raise UsageError(
            f"a key ({', '.join(key)}) has events in several partitions, whose offsets have no "
            f"order: let the transform return the column {_TIME}, or name the events' own key"
        )
    return once


def _last(rows: pa.Table, by: Sequence[str], order: Sequence[str]) -> pa.Table:
    in_order = rows.sort_by([(name, "ascending") for name in order])
    last = _numbered(in_order, by).group_by(list(by)).aggregate([(_ROW, "max")])
    return in_order.take(last[f"{_ROW}_max"])


def _require_columns(rows: pa.Table, names: Sequence[str]) -> None:
    for name in names:
        if name not in rows.column_names:
            raise UsageError(
                f"mode: upsert needs the column {name!r} in the rows, which have "
                f"{', '.join(rows.column_names)}"
            )


def _require_keys(rows: pa.Table, key: Sequence[str]) -> None:
    for name in (*key, *SEQUENCE):
        if rows[name].null_count:
            raise UsageError(
                f"{rows[name].null_count} of {rows.num_rows} rows have no {name}, which a merge "
                f"needs: leave them out in the transform, where {name} is not null"
            )


def _deleted(rows: pa.Table, column: str | None) -> Any:
    """Return the rows that delete their key: a null payload does, or a true value in `column`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column is not None:
        _require_columns(rows, (column,))
        if not pa.types.is_boolean(rows[column].type):
            raise UsageError(f"delete: column {column!r} is {rows[column].type}, not boolean")
        return pc.fill_null(rows[column], fill_value=False).chunks
    if _VALUE not in rows.column_names:
        raise UsageError(
            "mode: upsert cannot tell deletes: let the transform return the column 'value', or a "
            "boolean one that delete names"
        )
    value = rows[_VALUE]
    absent = pc.is_null(value)
    if pa.types.is_string(value.type) or pa.types.is_large_string(value.type):
        is_null = pc.equal(pc.utf8_trim_whitespace(value), "null")  # JSON's
        absent = pc.or_(absent, pc.fill_null(is_null, fill_value=False))
    return absent.chunks
