"""Turn rows of a DataFrame into the columns of the outbox, as CSV for COPY, by whole Arrow batches.

Each row is an event, and a unit of its own unless a column transaction_id says otherwise: with a
whole micro-batch as one unit, one bad event would dead-letter all of it.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gapless.errors import PublishError, UsageError
from gapless.features.spark.shape import uuid_text

if TYPE_CHECKING:
    import pyarrow as pa

# In the order of the query copy_into_log; by their names in a DataFrame.
_FIELDS = ("topic", "key", "host_id", "user_id", "transaction_id", "event_type", "value", "headers")
# Columns that the log sets itself: a DataFrame that was read from it may be written unchanged.
_IGNORED = {"partition", "offset", "timestamp"}


def check_columns(names: Sequence[str], *, topic: str | None) -> None:
    """Check that a DataFrame can be published. Raises UsageError in one sentence if not."""
    if "value" not in names:
        raise UsageError(
            f"a column value is needed, the event's JSON, and there are {', '.join(names)}: "
            "to_json(struct(*)) makes one"
        )
    strangers = [name for name in names if name not in {*_FIELDS, *_IGNORED}]
    if strangers:
        raise UsageError(
            f"there is no column {strangers[0]!r} in the log: put it into value, or leave it out; "
            f"columns are {', '.join(_FIELDS)}"
        )
    if topic is None and "topic" not in names:
        raise UsageError("which topic? Give the option topic, or a column topic")


def to_csv(batch: pa.RecordBatch, topic: str | None, topic_ids: Mapping[str, int]) -> bytes:
    """Return the rows as CSV for COPY. Raises PublishError for a topic that does not exist."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    given = {name: batch.column(n) for n, name in enumerate(batch.schema.names)}
    nothing = pa.nulls(batch.num_rows, pa.string())
    columns = [_topic_ids(given.get("topic"), topic, topic_ids, batch.num_rows)]
    for name in _FIELDS[1:]:
        column = _text(name, given[name]) if name in given else nothing
        columns.append(_own_units(column) if name == "transaction_id" else column)
    made = pa.RecordBatch.from_arrays(columns, names=list(_FIELDS))
    out = io.BytesIO()
    # Quotes around everything except NULL: COPY tells "" from NULL by them.
    options = pa_csv.WriteOptions(include_header=False, quoting_style="all_valid")
    pa_csv.write_csv(made, out, options)
    return out.getvalue()


def _text(name: str, column: pa.Array) -> pa.Array:
    """Return a column as text; headers may be an array of pairs, as in Kafka's sink."""
    import pyarrow as pa

    if name == "headers" and pa.types.is_list(column.type):
        pairs = column.to_pylist()
        return pa.array([None if each is None else _headers(each) for each in pairs], pa.string())
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise PublishError(f"column {name}: {error}: the log keeps text") from error


def _headers(pairs: Sequence[Mapping[str, bytes | str | None]]) -> str:
    """Return pairs of key and value as a JSON object. Raises PublishError for a key twice."""
    found: dict[str, str | None] = {}
    for pair in pairs:
        key, value = tuple(pair.values())
        if not isinstance(key, str) or key in found:
            raise PublishError(
                f"headers are an object: the key {key!r} cannot be, or is there twice"
            )
        try:
            found[key] = value.decode() if isinstance(value, bytes) else value
        except UnicodeDecodeError:
            raise PublishError(f"header {key!r} is no UTF-8: the log keeps text") from None
    return json.dumps(found)


def _topic_ids(
    column: pa.Array | None, topic: str | None, topic_ids: Mapping[str, int], rows: int
) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if topic is not None:  # the option takes precedence over the column, as for Kafka
        return pa.array([_topic_id(topic, topic_ids)] * rows, type=pa.int32())
    assert column is not None
    names = pc.unique(column)
    ids = pa.array([_topic_id(name, topic_ids) for name in names.to_pylist()], type=pa.int32())
    return ids.take(pc.index_in(column, names))


def _topic_id(topic: str | None, topic_ids: Mapping[str, int]) -> int:
    try:
        return topic_ids[str(topic)]
    except KeyError:
        raise PublishError(
            f'topic "{topic}" does not exist: create it with gapless topics create {topic}'
        ) from None


def _own_units(column: pa.Array) -> pa.Array:
    """Give each event without a transaction_id one of its own: a random start, then counted up.

    So they are neighbours in the index over transaction_id: random ids would each touch another
    page.
    """
    import numpy as np
    import pyarrow.compute as pc

    raw = np.empty((len(column), 16), dtype=np.uint8)
    raw[:, :12] = np.frombuffer(os.urandom(12), dtype=np.uint8)
    raw[:, 12:] = np.arange(len(column), dtype=">u4").view(np.uint8).reshape(-1, 4)
    raw[:, 6] = (raw[:, 6] & 0x0F) | 0x80
    raw[:, 8] = (raw[:, 8] & 0x3F) | 0x80
    return pc.coalesce(column, uuid_text(raw))
