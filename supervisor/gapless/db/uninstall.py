"""Remove the schema."""

from __future__ import annotations

import re

from psycopg import Connection

from gapless.db.migrate import refuse_stranger
from gapless.db.queries import every_file, query
from gapless.db.schema import schema
from gapless.errors import SchemaError


def uninstall(conn: Connection) -> list[str]:
    """Drop the schema with all its contents, and the roles; return the roles that stay.

    Roles stay that have other members, that other objects depend on, or that the caller may not
    drop. One transaction. Raises SchemaError, and drops nothing, if the schema is not one of ours,
    or has foreign tables in it.
    """
    refuse_stranger(conn)
    _refuse_guests(conn)
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
