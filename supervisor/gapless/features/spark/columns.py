"""The columns of the source: their Spark types, and the columns to fetch for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from gapless.errors import UsageError

HEADERS = "ARRAY<STRUCT<key: STRING, value: BINARY>>"  # as Kafka's source has them


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


def spark_types(names: Sequence[str], formats: Mapping[str, str]) -> dict[str, str]:
    """Return the Spark type of each column; formats: those that options have changed."""
    return {name: formats.get(name, COLUMNS[name].spark_type) for name in names}


def schema_ddl(names: Sequence[str], formats: Mapping[str, str]) -> str:
    """Return the schema as Spark's DDL; all columns are nullable, as its Arrow check expects."""
    types = spark_types(names, formats)
    return ", ".join(f"`{name}` {spark_type}" for name, spark_type in types.items())


def require_own_schema(
    found: Sequence[tuple[str, str]], names: Sequence[str], formats: Mapping[str, str]
) -> None:
    """Raise UsageError for a schema of the user's; found: names and types, in Spark's short form.

    Spark would compare it with the first batch of each task, and fail them all.
    """
    wanted = [
        (name, kind.lower().replace(": ", ":").replace(", ", ",").removesuffix("_ltz"))
        for name, kind in spark_types(names, formats).items()
    ]
    if list(found) != wanted:
        raise UsageError(
            "a log has its own schema: leave .schema(...) out, and choose columns with option "
            f"columns ({','.join(names[:3])}...); from_json(value, schema) reads the payload"
        )


def fetched(names: Sequence[str]) -> tuple[str, ...]:
    """Return the needed columns of outbox_message_t, `id` first: it locates the row."""
    wanted = [column for name in names for column in COLUMNS[name].fetched]
    return ("id", *dict.fromkeys(wanted))
