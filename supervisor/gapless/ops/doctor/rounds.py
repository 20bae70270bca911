"""All checks in their order: the failure of an early one makes the later ones pointless."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.db.connect import connect_shared
from gapless.errors import ConnectError
from gapless.features import FEATURES
from gapless.ops.doctor import log, places, schema, server, session, tables
from gapless.ops.doctor.finding import Finding, Patient, examine, fail, ok

__all__ = ["diagnose"]

_SERVER = (
    server.server_version,
    session.primary,
    session.pooler,
    session.clock,
    session.wake_up,
    session.notify_queue,
    server.encoding,
    server.durability,
    server.upkeep,
    server.horizon,
    server.prepared,
)
_SCHEMA = (schema.schema,)
_LOCKS = (tables.locks,)
_WHOLE = (log.restored,)
_LOG = (
    schema.roles,
    schema.privileges,
    schema.terminate,
    server.connections,
    log.wake_trigger,
    log.chunks,
    log.sequencer,
    log.unrouted,
    log.foreign_locks,
    log.obstacles,
    log.members,
    log.partitions,
    places.offsets,
    log.leases,
    log.retention,
    log.dedupe,
)


def diagnose(dsn: str, *, connect_timeout_s: int = 10) -> Iterator[Finding]:
    """Yield the findings of every check, as soon as they are known; change nothing.

    dsn: for two sessions of its own. A check that cannot look yields a finding, too.
    Raises psycopg.Error if the connection is lost on the way.
    """
    try:
        conn = connect_shared(dsn, role="doctor", connect_timeout_s=connect_timeout_s)
    except ConnectError as error:
        yield fail("connection", str(error), "nothing else can be looked at")
        return
    with conn, connect_shared(dsn, role="doctor", connect_timeout_s=connect_timeout_s) as second:
        yield ok("connection", f'database "{conn.info.dbname}" as role "{conn.info.user}"')
        patient = Patient(conn=conn, second=second)
        yield from examine(patient, _SERVER)
        fits = True
        whole = (*_LOG, *(check for each in FEATURES for check in each.checks()))
        for checks in (_SCHEMA, _LOCKS, _WHOLE, whole):
            for finding in examine(patient, checks if fits else ()):
                fits &= finding.level == "ok"
                yield finding
