"""The schema and topics of a test's database."""

from __future__ import annotations

from collections.abc import Mapping

from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.log.sequence import create_chunks
from gapless.log.topics import ensure_topic


def install(dsn: str, *, topics: Mapping[str, int] | None = None) -> None:
    """Install the schema and create topics. Repeat freely.

    dsn: of the database, as libpq takes it; its role must be allowed to create a schema there.
    topics: the number of partitions, 1 to 4096, by name; an existing topic must have that many.
    Raises ConnectError when the database refuses, SchemaError when a newer gapless made its schema,
    UsageError for an invalid name, or a topic that exists with another number of partitions.
    """
    with connect(dsn, role="testing") as conn:
        migrate(conn)
        create_chunks(conn)
        for name, partitions in (topics or {}).items():
            ensure_topic(conn, name, partitions=partitions)
