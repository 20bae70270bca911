"""Which database the driver has reached, so that tasks reach the same one, or say that they do not.

What the driver was told may mean something else elsewhere: PG* variables, a service, a passfile or
`localhost` are those of the machine. So tasks are given what it came to, and prove it once for each
connection: by the cluster's identifier and the database's id, which a standby has as well.
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

# What connect() and bulk.py say themselves, and what only this machine can look up.
_OWN = frozenset(
    {
        *("application_name", "fallback_application_name", "client_encoding", "connect_timeout"),
        *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
        *("tcp_user_timeout", "replication", "passfile", "service", "servicefile"),
    }
)
# Files of this machine: what its environment says of them does not concern another one.
_FILES = frozenset({"sslcert", "sslkey", "sslrootcert", "sslcrl", "sslcrldir", "sslkeylogfile"})
_FILLED_IN = {"sslcertmode": "allow"}


class Identity(str):
    """What a database answers with; a process that is sent one works in the driver's schema."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Send the schema along."""
        return _received, (str(self), schema())


def _received(identity: str, sent_schema: str) -> Identity:
    use_schema(sent_schema)
    return Identity(identity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A database as tasks are told of it. dsn: in full; identity: what it has to answer with."""

    dsn: str = field(repr=False)
    identity: Identity


def reached(conn: Connection[Any]) -> Reached:
    """Return what a session of the driver came to, whatever it was told."""
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
    """Return what no other database answers; one that was restored, or a standby, does."""
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
    """Tell whether somebody has said this, and it means the same where tasks run.

    What libpq fills in by itself is not sent: that of an executor may not know it.
    """
    name, value = option.keyword.decode(), (option.val or b"").decode()
    if not value or option.val == option.compiled or name in _OWN:
        return False
    if _FILLED_IN.get(name) == value:
        return False
    return name not in _FILES or value != os.environ.get((option.envvar or b"").decode())
