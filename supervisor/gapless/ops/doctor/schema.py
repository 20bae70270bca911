"""Checks that the schema is the one that this program knows, and that this role may use it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gapless.db.migrate import require_schema
from gapless.db.queries import query
from gapless.db.schema import init_command
from gapless.errors import HiddenError, SchemaError
from gapless.ops.doctor.finding import Finding, Patient, fail, ok, warning
from gapless.ops.rows import rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Privileges:
    """The privileges of this role."""

    publish: bool
    consume: bool
    upgrade: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminator:
    """The role that owns gapless' functions, and whether it may end this role's sessions."""

    owner: str
    may: bool


def schema(patient: Patient) -> Iterator[Finding]:
    """Check that the schema is there and fits this program."""
    try:
        require_schema(patient.conn)
    except (SchemaError, HiddenError) as error:
        text, _, remedy = str(error).rpartition(": ")
        yield fail("schema", text, remedy)
    else:
        yield ok("schema", f'database "{patient.conn.info.dbname}" has what this program knows')


def roles(patient: Patient) -> Iterator[Finding]:
    """Check that the roles to grant exist."""
    row = patient.conn.execute(query("doctor", "missing_roles")).fetchone()
    missing = row[0] if row else []
    if missing:
        yield warning(
            "roles",
            f"{', '.join(missing)} do not exist, so only the schema's owner can do anything",
            f"run {init_command()} as a role that may create roles",
        )
    else:
        yield ok("roles", "gapless_producer, gapless_consumer and gapless_operator exist")


def privileges(patient: Patient) -> Iterator[Finding]:
    """Check that this role may do anything here."""
    found = rows(patient.conn, Privileges, query("doctor", "privileges"))[0]
    may = [
        word
        for word, has in (
            ("publish", found.publish),
            ("run supervisors and read the log", found.consume),
            ("upgrade the schema", found.upgrade),
        )
        if has
    ]
    role = f'role "{patient.conn.info.user}"'
    if not may:
        yield fail(
            "privileges",
            f"{role} may neither publish nor consume",
            "grant it gapless_producer or gapless_consumer",
        )
    else:
        yield ok("privileges", f"{role} may {', '.join(may)}")


def terminate(patient: Patient) -> Iterator[Finding]:
    """Check that peers can end the session of a worker that hangs in a query."""
    for found in rows(patient.conn, Terminator, query("doctor", "terminator")):
        if found.may:
            yield ok("terminate", f'"{found.owner}" may end the sessions of evicted supervisors')
        else:
            yield warning(
                "terminate",
                f'"{found.owner}", the schema\'s owner, may not end sessions of role '
                f'"{patient.conn.info.user}": a frozen worker keeps its partition for long',
                f'grant "{patient.conn.info.user}" to "{found.owner}", or pg_signal_backend',
            )
