"""The columns of the source: their Spark types, and the columns to fetch for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from gapless.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the source; `fetched` are columns of outbox_message_t, none for a constant."""

    name: str
    spark_type: str
    fetched: tuple[str, ...]


COLUMNS = {
    column.name: column
    for column in (
        Column(name="key", spark_type="STRING", fetched=("key",)),
        Column(name="value", spark_type="STRING", fetched=("payload",)),
        Column(name="topic", spark_type="STRING", fetched=()),
        Column(name="partition", spark_type="INT", fetched=()),
        Column(name="offset", spark_type="BIGINT", fetched=()),
        Column(name="timestamp", spark_type="TIMESTAMP_LTZ", fetched=("created_ts",)),
        Column(name="headers", spark_type="STRING", fetched=("headers",)),
        Column(name="transaction_id", spark_type="STRING", fetched=("transaction_id", "xid")),
        Column(name="event_type", spark_type="STRING", fetched=("event_type",)),
        Column(name="host_id", spark_type="STRING", fetched=("host_id",)),
        Column(name="user_id", spark_type="STRING", fetched=("user_id",)),
    )
}


def parse_columns(text: str | None) -> tuple[str, ...]:
    """Return the names in `text`, in their order; all columns for None."""
    if text is None:
        return tuple(COLUMNS)
    names = tuple(word.strip() for word in text.split(",") if word.strip())
    for name in names:
        if name not in COLUMNS:
            close = get_close_matches(name, COLUMNS, n=1)
            meant = f"; did you mean {close[0]}?" if close else f": {', '.join(COLUMNS)}"
            raise UsageError(f"columns: there is no column {name!r}{meant}")
    if not names or len(set(names)) != len(names):
        raise UsageError(f"columns {text!r}: name one column or more, each once")
    return names


def schema_ddl(names: Sequence[str], *, binary_value: bool = False) -> str:
    """Return the schema as Spark's DDL; all columns are nullable, as its Arrow check expects."""
    types = {name: COLUMNS[name].spark_type for name in names}
    if binary_value and "value" in types:
        types["value"] = "BINARY"
    return ", ".join(f"`{name}` {spark_type}" for name, spark_type in types.items())


def fetched(names: Sequence[str]) -> tuple[str, ...]:
    """Return the needed columns of outbox_message_t, `id` first: it locates the row."""
    wanted = [column for name in names for column in COLUMNS[name].fetched]
    return ("id", *dict.fromkeys(wanted))
