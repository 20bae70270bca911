"""Checks that the server suits gapless: version, durability, connections, vacuum's horizon."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gapless.db.connect import MIN_SERVER_VERSION
from gapless.db.queries import query
from gapless.lease.room import MANY_PARTITIONS, SESSIONS_PER_SUPERVISOR
from gapless.ops.doctor.finding import Finding, Patient, fail, ok, warning
from gapless.ops.rows import rows
from gapless.ops.text import duration, plain, quantity

_OLD_S = 600.0
_PREPARED_OLD_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The server's version and settings, as this session sees them."""

    version: str
    role: str
    encoding: str
    synchronous_commit: str
    fsync: str
    full_page_writes: str
    autovacuum: str
    check_interval: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """Numbers of sessions: `admitted` to this role and database, of all programs, of gapless.

    own: sessions of the members, without those of their workers. workers: sessions of workers of
    ordered groups.
    """

    admitted: int
    taken: int
    taken_by_gapless: int
    partitions: int
    members: int
    own: int
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Oldest:
    """The session that holds the horizon; its age is None where there is no transaction."""

    pid: int
    role: str | None
    application: str | None
    state: str | None
    age_s: float | None
    xids: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A replication slot that holds the horizon."""

    name: str
    active: bool
    xids: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A prepared transaction of this database."""

    gid: str
    role: str
    age_s: float


def server_version(patient: Patient) -> Iterator[Finding]:
    """Check that the server is new enough."""
    version = _facts(patient).version
    least = f"gapless needs {MIN_SERVER_VERSION // 10000} or newer"
    if patient.conn.info.server_version < MIN_SERVER_VERSION:
        yield fail("server-version", f"PostgreSQL {version}", least)
    else:
        yield ok("server-version", f"PostgreSQL {version} ({least})")


def encoding(patient: Patient) -> Iterator[Finding]:
    """Check that the database can store every text."""
    name = _facts(patient).encoding
    if name == "UTF8":
        yield ok("encoding", "UTF8")
    else:
        yield warning(
            "encoding", f"{name}: events with other characters are refused", "use a UTF8 database"
        )


def durability(patient: Patient) -> Iterator[Finding]:
    """Check that commits survive a crash of the server."""
    facts = _facts(patient)
    found = False
    if facts.fsync == "off":
        found = True
        yield fail(
            "durability",
            "fsync is off: a crash of the machine loses or destroys events",
            "set fsync = on",
        )
    if facts.full_page_writes == "off":
        found = True
        yield warning(
            "durability",
            "full_page_writes is off: safe only on storage that never tears a page",
            "set full_page_writes = on",
        )
    if facts.synchronous_commit == "off":
        found = True
        yield warning(
            "durability",
            f'synchronous_commit is off for role "{facts.role}" here: a crash of the server may '
            "lose what was published just before",
            "set synchronous_commit = on for publishers and handlers",
        )
    if not found:
        yield ok(
            "durability",
            f"fsync and full_page_writes are on, synchronous_commit is {facts.synchronous_commit}",
        )


def upkeep(patient: Patient) -> Iterator[Finding]:
    """Check the settings that matter in the long run."""
    facts = _facts(patient)
    if facts.autovacuum == "off":
        yield warning(
            "autovacuum", "is off: the small tables of offsets and leases bloat", "turn it on"
        )
    else:
        yield ok("autovacuum", "is on")
    if facts.check_interval == "0":
        yield warning(
            "client-check",
            "client_connection_check_interval has no effect on the server's operating system: a "
            "worker that dies in mid-query holds its partition until the query ends",
        )
    else:
        yield ok("client-check", "the server notices a client that is gone during a query")


def connections(patient: Patient) -> Iterator[Finding]:
    """Check that there are enough sessions to work on every partition."""
    facts = rows(patient.conn, Connections, query("doctor", "connections"))[0]
    members = max(facts.members, 1)
    needed = facts.partitions + (facts.own or SESSIONS_PER_SUPERVISOR)
    others = facts.taken - facts.taken_by_gapless
    text = (
        f"{quantity(facts.partitions, 'partition')} of all groups and "
        f"{quantity(members, 'supervisor')} "
        f"take {needed} sessions at most; {facts.admitted} are admitted, others have {others}"
    )
    if facts.partitions > MANY_PARTITIONS * members and facts.workers >= facts.partitions:
        text += "; partitionsPerWorker: auto lets a few workers serve all whose handlers are fast"
    remedy = "raise max_connections, or set partitionsPerWorker: auto"
    if needed > facts.admitted:
        yield fail("connections", text, f"{remedy}, or capacity and fewer groups")
    elif needed > facts.admitted - others:
        yield warning("connections", text, remedy)
    else:
        yield ok("connections", text)


def horizon(patient: Patient) -> Iterator[Finding]:
    """Find the session that holds back vacuum: its own events wait, and dead rows are kept."""
    oldest = rows(patient.conn, Oldest, query("doctor", "oldest"))
    for slot in rows(patient.conn, Slot, query("doctor", "slots")):
        state = "active" if slot.active else "inactive"
        yield warning(
            "horizon",
            f"the {state} replication slot {slot.name} holds it for {slot.xids:,} transactions",
            "drop the slot if it is not needed",
        )
    if not oldest:
        yield ok("horizon", "no transaction is open")
        return
    one = oldest[0]
    age = "" if one.age_s is None else f", open for {duration(one.age_s)}"
    text = (
        f"held by pid {one.pid} ({plain(one.application or 'no application_name')}, role "
        f"{one.role}, {one.state}){age}, {one.xids or 0:,} transactions ago"
    )
    if (one.age_s or 0) > _OLD_S:
        remedy = "its own events wait for it and dead rows pile up: end it"
        yield warning("horizon", text, remedy)
    else:
        yield ok("horizon", text)


def prepared(patient: Patient) -> Iterator[Finding]:
    """Check that no prepared transaction was forgotten: its events would never be seen."""
    found = rows(patient.conn, Prepared, query("doctor", "prepared"))
    if not found:
        yield ok("prepared", "no prepared transactions")
        return
    oldest = found[0]
    text = (
        f"{quantity(len(found), 'prepared transaction')}, the oldest {plain(oldest.gid)!r} by "
        f"{oldest.role} for {duration(oldest.age_s)}"
    )
    gid = "'" + plain(oldest.gid).replace("'", "''") + "'"
    if oldest.age_s > _PREPARED_OLD_S:
        yield warning("prepared", text, f"COMMIT PREPARED {gid}, or ROLLBACK PREPARED {gid}")
    else:
        yield ok("prepared", text)


def _facts(patient: Patient) -> ServerFacts:
    return rows(patient.conn, ServerFacts, query("doctor", "server"))[0]
