"""The database that the driver has reached: tasks reach the same one, or say that they do not.

The driver's settings may mean something else elsewhere: PG* variables, a service, a passfile and
`localhost` belong to the machine. So tasks are given the driver's actual connection, and prove it
once for each of theirs: by the cluster's identifier and the database's id, which a standby shares.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from gapless.db.connect import connect
from gapless.db.queries import query
from gapless.db.schema import schema, use_schema
from gapless.errors import GaplessError

if TYPE_CHECKING:
    from psycopg.pq import ConninfoOption

# Settings of connect() and bulk.py, and settings that only this machine can look up.
_OWN = frozenset(
    {
        *("application_name", "fallback_application_name", "client_encoding", "connect_timeout"),
        *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
        *("tcp_user_timeout", "replication", "passfile", "service", "servicefile"),
    }
)
# Files of this machine: their paths from its environment do not concern another machine.
_FILES = frozenset({"sslcert", "sslkey", "sslrootcert", "sslcrl", "sslcrldir", "sslkeylogfile"})
_FILLED_IN = {"sslcertmode": "allow"}


class Identity(str):
    """A database's answer that identifies it; unpickling one selects the driver's schema."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Send the schema as well."""
        return _received, (str(self), schema())


def _received(identity: str, sent_schema: str) -> Identity:
    use_schema(sent_schema)
    return Identity(identity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A database for tasks to reach. dsn: in full; identity: the answer that it has to give."""

    dsn: str = field(repr=False)
    identity: Identity


def reached(conn: Connection[Any]) -> Reached:
    """Return the database that a driver's session has actually reached."""
    found = {
        option.keyword.decode(): (option.val or b"").decode()
        for option in conn.pgconn.info
        if _concerns_tasks(option)
    }
    info = conn.info
    found.setdefault("host", info.host)
    found.setdefault("port", str(info.port))
    found |= {"dbname": info.dbname, "user": info.user}
    if info.password:
        found["password"] = info.password
    return Reached(dsn=make_conninfo("", **found), identity=identity_of(conn))


def identity_of(conn: Connection[Any]) -> Identity:
    """Return an answer that no other database gives, except a restored copy or a standby."""
    row = conn.execute(query("spark", "database_identity")).fetchone()
    assert row is not None
    return Identity(row[0])


def connect_task(dsn: str, *, role: str, identity: str | None) -> Connection[Any]:
    """Open a task's session. Raises ConnectError, GaplessError for another database; None: any."""
    conn = connect(dsn, role=role)
    try:
        if identity is not None:
            require_same_database(dsn, identity, identity_of(conn))
    except BaseException:
        conn.close()
        raise
    return conn


def require_same_database(dsn: str, wanted: str, found: str) -> None:
    """Raise GaplessError unless a task has found the driver's database."""
    if found == wanted:
        return
    said = conninfo_to_dict(dsn)
    where = ", ".join(f"{name} {said[name]}" for name in ("host", "port", "dbname") if name in said)
    raise GaplessError(
        f"a Spark task reached another database than the driver, by {where}: name the server in "
        "url or GAPLESS_DSN as it is called on every machine (localhost and sockets are not)"
    )


def _concerns_tasks(option: ConninfoOption) -> bool:
    """Tell whether an option was set, and means the same where tasks run.

    libpq's own defaults are not sent: an executor's libpq may not know them.
    """
    name, value = option.keyword.decode(), (option.val or b"").decode()
    if not value or option.val == option.compiled or name in _OWN:
        return False
    if _FILLED_IN.get(name) == value:
        return False
    return name not in _FILES or value != os.environ.get((option.envvar or b"").decode())
