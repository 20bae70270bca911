"""The tests in another schema: `GAPLESS_TEST_SCHEMA=audit bin/test tests/features/queue`.

Their SQL says `gapless.`, as the source does; psycopg is patched to move it into that schema.
Processes that they start find GAPLESS_SCHEMA in their environment.
"""

import os
from typing import Any

from psycopg._queries import PostgresQuery

from gapless.db.schema import in_schema
from gapless.settings.schema import DEFAULT_SCHEMA

SCHEMA = os.environ.get("GAPLESS_TEST_SCHEMA", DEFAULT_SCHEMA)


def configure() -> None:
    """Make this process and its children work in the schema of GAPLESS_TEST_SCHEMA."""
    os.environ.pop("GAPLESS_SCHEMA", None)
    if SCHEMA == DEFAULT_SCHEMA:
        return
    os.environ["GAPLESS_SCHEMA"] = SCHEMA
    as_bytes = PostgresQuery._ensure_bytes

    def moved(self: PostgresQuery, query: Any) -> bytes:
        text = as_bytes(self, query)
        if b"gapless" in text or b"742700" in text:
            return in_schema(text.decode(), SCHEMA).encode()
        return text

    PostgresQuery._ensure_bytes = moved  # type: ignore[method-assign]
