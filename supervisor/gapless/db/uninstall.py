"""Remove the schema."""

from __future__ import annotations

import re

from psycopg import Connection
from psycopg.errors import DeadlockDetected
from tenacity import retry, retry_if_exception_type, stop_after_attempt

from gapless.db.migrate import refuse_stranger
from gapless.db.queries import every_file, query
from gapless.db.schema import schema
from gapless.errors import SchemaError

_TRIES = 10


def uninstall(conn: Connection) -> list[str]:
    """Drop the schema with all its contents, and the roles; return the roles that stay.

    Roles stay that have other members, that other objects depend on, or that the caller may not
    drop. One transaction. Raises SchemaError, and drops nothing, if the schema is not one of ours,
    or has foreign tables in it.
    """
    refuse_stranger(conn)
    _refuse_guests(conn)
    return _drop(conn)


# A session at work may lock the tables in another order, and this one be the victim.
@retry(
    retry=retry_if_exception_type(DeadlockDetected), stop=stop_after_attempt(_TRIES), reraise=True
)
def _drop(conn: Connection) -> list[str]:
    with conn.transaction():
        conn.execute(query("schema", "drop_schema"))
        conn.execute(query("schema", "drop_roles"))
        return [name for (name,) in conn.execute(query("schema", "roles_left")).fetchall()]


def _refuse_guests(conn: Connection) -> None:
    """Raise SchemaError for tables that our SQL does not name: the drop would remove them too."""
    ours = {
        name for file in every_file() for name in re.findall(r"\bgapless\.(\w+)", file.read_text())
    }
    found = [name for (name,) in conn.execute(query("schema", "relations")).fetchall()]
    guests = [f'{schema()}."{name}"' for name in found if name not in ours]
    if guests:
        raise SchemaError(
            f"{len(guests)} tables or views that are not gapless's own would go with schema "
            f"{schema()}: {', '.join(guests[:5])}; move them first: "
            f"alter table {guests[0]} set schema public"
        )
