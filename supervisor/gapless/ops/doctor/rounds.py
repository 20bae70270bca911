"""All checks in their order: what fails early makes the later ones pointless."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.db.connect import connect_shared
from gapless.errors import ConnectError
from gapless.features.compaction import checks as compaction
from gapless.features.expiry import checks as expiry
from gapless.features.filters import checks as filters
from gapless.features.filters import subscription_checks as subscriptions
from gapless.features.queue import checks as queues
from gapless.features.scheduled import checks as later
from gapless.features.schemas import checks as schemas
from gapless.features.webhooks import checks as webhooks
from gapless.ops.doctor import log, places, schema, server, session, tables
from gapless.ops.doctor.finding import Finding, Patient, examine, fail, ok

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
    later.later,
    tables.captures,
    tables.attachments,
    tables.classic,
    webhooks.webhooks,
    log.squatters,
    log.obstacles,
    log.members,
    log.partitions,
    queues.queues,
    subscriptions.subscriptions,
    filters.filters,
    schemas.schemas,
    expiry.expiry,
    places.offsets,
    log.leases,
    log.retention,
    compaction.compaction,
    log.pipelines,
    log.dedupe,
)


def diagnose(dsn: str, *, connect_timeout_s: int = 10) -> Iterator[Finding]:
    """Yield what every check finds, as soon as it is known; changes nothing.

    dsn: for two sessions of its own. What cannot be looked at is a finding, too.
    Raises psycopg.Error for a connection that is lost on the way.
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
        for checks in (_SCHEMA, _LOCKS, _WHOLE, _LOG):
            for finding in examine(patient, checks if fits else ()):
                fits &= finding.level == "ok"
                yield finding
