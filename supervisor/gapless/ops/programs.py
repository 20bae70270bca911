"""Programs of gapless with sessions in the database: supervisors, gateways, commands."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gapless.db.queries import query
from gapless.db.schema import schema
from gapless.ops.rows import rows

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["Program", "list_programs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Sessions of one kind of program, from one host, with one role.

    kind: gateway, supervisor, worker …; host: its address; None: it came by a socket of the
    database's machine, or this role may not see it. sessions: open sessions now. since: the start
    of the oldest one.
    """

    kind: str
    role: str
    host: str | None
    sessions: int
    since: datetime | None


def list_programs(conn: Connection[Any]) -> list[Program]:
    """Return programs that named their sessions as gapless does, by kind.

    Raises ConfigError for an invalid GAPLESS_SCHEMA.
    """
    return rows(conn, Program, query("programs", "list"), prefix=f"{schema()}/")
