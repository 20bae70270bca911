"""The settings of the core, by section; a feature declares its own in its room.

A docstring gives the meaning. Type, range and default are in the declaration alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gapless.settings.declare import (
    REFERENCE_CHARACTERS_MAX,
    choice,
    classic_whole,
    name,
    no_by_default,
    setting,
    whole,
)
from gapless.settings.kinds import Address, Dsn, Items, Text, Whole, Wholes
from gapless.settings.schema import DEFAULT_SCHEMA, SchemaName

OnFailure = Literal["dead-letter", "retry", "park-key", "block"]
DeliveryMode = Literal["exactly-once", "at-least-once"]
GroupBy = Literal["transaction", "user"]
OffsetReset = Literal["error", "earliest", "latest"]
LogFormat = Literal["auto", "text", "json"]

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_MONTH_S = 31 * 86_400
CENTURY_S = 36_500 * 86_400
RETRIES_MAX = 100


@dataclass(frozen=True, kw_only=True)
class ProcessSettings:
    """The database, and the process."""

    dsn: str | None = setting(Dsn(null="libpq's own environment"))
    """The database: a libpq connection string or URI, as psql takes it. libpq's own environment is
    PGHOST, PGPORT, PGDATABASE, PGUSER, PGSERVICE with its service file, PGPASSFILE and more; where
    that names no server either, gapless starts its own PostgreSQL. Keep passwords out of this file:
    use a password file, a service file or GAPLESS_DSN, or refer to a DSN that is elsewhere, by
    env:NAME (a variable) or file:/path."""

    schema: str = setting(SchemaName(), DEFAULT_SCHEMA)
    """The schema in which gapless is installed; several in one database are independent of each
    other. All programs of an installation have to use the same: best by GAPLESS_SCHEMA."""

    app: str | None = setting(Text(longest=REFERENCE_CHARACTERS_MAX, null="none"))
    """The program whose handlers `gapless run` runs when the command line names none:
    module:attribute or the path of a Python file."""

    handlers: tuple[str, ...] = setting(
        Items(item=Text(longest=REFERENCE_CHARACTERS_MAX), null="none"), ()
    )
    """More handlers to run, each as module:attribute, in any order: a YAML list, or one text with
    commas between them (an environment variable can hold only that)."""

    instance_name: str | None = name(None, null="host name and process id")
    """The name of this supervisor for people, in logs and in `gapless status`. It identifies
    nothing: two supervisors may have the same."""

    log_format: LogFormat = choice(LogFormat)
    """The format of the log: text, json (a JSON object a line), or auto, which is the live console
    on a terminal and text elsewhere."""

    metrics: str | None = setting(Address(null="no metrics"))
    """The address of metrics (/metrics, for Prometheus) and health (/healthz, /readyz) of a
    supervisor. Port 0 is any that is free. It needs the extra `metrics`."""

    connect_timeout_s: int = whole(10, 1, 600)
    """Seconds until one attempt to connect is given up. Attempts are repeated, so a high value only
    delays the report of an unreachable server."""

    start_timeout_s: int = whole(0, 0, 86_400)
    """Seconds that `gapless run` waits at its start for a database that cannot be reached; then it
    ends with exit code 3. 0 is forever. A fault that waiting does not mend (a wrong password, no
    such database, no schema) ends it at once, with 2."""

    exit_on_revoked: bool = no_by_default()
    """Whether a supervisor ends, with exit code 2, when its role loses gapless_consumer. Otherwise
    it logs that, ends its workers when the ttl is over, and joins again when the grant is back."""

    statement_timeout_ms: int = whole(0, 0, _DAY_MS)
    """Milliseconds after which the server cancels a single statement of a handler
    (statement_timeout), which fails its unit. 0 is no limit: maxProcessingMs bounds the batch."""


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """The log."""

    topic: str = name("outbox")
    """The topic of handlers that name none. `gapless init` makes it if the configuration sets topic
    or totalPartitions; `gapless run` does if it sets totalPartitions."""

    group_id: str | None = name(None, null="the group each handler names", classic=True)
    """The consumer group of handlers that name none. Supervisors of one group share its partitions;
    each group gets every event."""

    total_partitions: int = classic_whole(8, 1, 4_096)
    """Partitions of a new topic: as many workers can share a group's work. An existing topic does
    not change (gapless topics alter does that): if this is set, one with another number is refused;
    if it is left out, a topic keeps its own."""

    create_topics: bool = no_by_default()
    """Whether `gapless run` makes the topics of its handlers that do not exist. Otherwise it
    refuses to start: a misspelt name would be a topic without events."""

    chunk_events: int = whole(1_000_000, 10_000, 1_000_000_000)
    """Events in one chunk of the table outbox_message_t. Retention drops whole chunks, so a small
    one frees disk sooner, and a large one means fewer tables to plan over."""

    chunks_ahead: int = whole(2, 1, 64)
    """Empty chunks that stand ready beyond the present one. Raise this when a single load brings
    more than chunkEvents times chunksAhead events, faster than new chunks are made."""

    retention_s: int | None = whole(None, 1, CENTURY_S, null="forever")
    """Seconds that a new topic keeps its events, at least. An existing topic does not change
    (gapless topics alter --retention 7d does that). Events that a group has not handled yet are
    kept longer."""

    retention_check_s: int = whole(60, 1, 86_400)
    """Seconds between two looks of the sequencer for chunks that may be dropped."""

    sequencer_pause_ms: int = whole(1, 0, 1_000)
    """Milliseconds that the awake sequencer rests between two runs. Each run gives offsets to all
    committed events: less is lower latency, more is fewer and larger segments."""


@dataclass(frozen=True, kw_only=True)
class HandlingSettings:
    """The handling of events."""

    batch_size: int = classic_whole(100, 1, 100_000)
    """Events that a worker claims at a time, all committed in one transaction. It never limits a
    unit (I5): a claim extends to the end of its last unit, at any length."""

    wait_period_ms: int = classic_whole(1_000, 10, _HOUR_MS)
    """Milliseconds until a process that waits for a notification looks without one. A safety net
    for lost notifications; it is not the latency of events."""

    group_by: GroupBy = choice(GroupBy)
    """The property that makes neighbouring events one unit, handled and committed or dead-lettered
    together: transaction (the publishing transaction, and within it one transaction_id), or user
    (host_id and user_id: a claim extends as long as the next events in the log are of the same
    user)."""

    max_processing_ms: int = whole(300_000, 100, _DAY_MS)
    """Milliseconds that one batch may take. A worker that needs longer is taken for stuck, killed
    and replaced (I8), so stay well above the slowest honest batch."""

    stream_above_events: int = whole(10_000, 1, 10_000_000)
    """Events above which a unit is streamed to its handler, not held in memory. With events of 1 KB
    the default is about 10 MB for each worker."""

    max_units_per_savepoint_batch: int = whole(64, 1, 64)
    """Units in one commit, each under its own savepoint, during the search for a failing unit.
    PostgreSQL keeps 64 open subtransactions in memory; more would slow the whole server."""

    on_failure: OnFailure = choice(OnFailure)
    """The treatment of a unit whose handler raised, unless the handler sets it: dead-letter (it is
    set aside for a person), retry (tried again after each of retryDelaysS, then dead-letter),
    park-key (the same, and later units that touch one of its keys wait behind it), or block (tried
    again in place forever: nothing passes it)."""

    retry_delays_s: tuple[float, ...] = setting(
        Wholes(low=0, high=_MONTH_S, most=RETRIES_MAX, null="no other attempt"), (60, 300)
    )
    """Seconds until the second, the third, … attempt at a unit that failed, under retry and
    park-key."""

    auto_offset_reset: OffsetReset = choice(OffsetReset)
    """The place where a group continues if retention dropped events that it had not handled, which
    happens only to groups that a topic names (gapless topics alter --overrun): error (the partition
    stops with a message, gapless seek mends it), earliest (the oldest event there is) or latest
    (events published from now on)."""

    max_crashes: int = whole(3, 1, 1_000)
    """Deaths of a worker (killed, out of memory, longer than maxProcessingMs) at one and the same
    unit after which that unit is dead-lettered without another call (I8)."""

    brake_keys: int = whole(10, 0, 20)
    """Keys among the last 20 units of a partition, all of them failed, at which it slows down, up
    to 30 s a unit, while nothing else is handled: as after a bad deploy, not for the bad events of
    one producer. 0: it never does."""

    delivery: DeliveryMode = choice(DeliveryMode)
    """The calls of handlers that set none themselves: exactly-once (in the transaction that also
    moves the offset) or at-least-once (outside of it, for effects that are not in this
    database)."""

    concurrency: int = whole(1, 1, 1_000)
    """Concurrent calls of an at-least-once handler in one worker, for each of its partitions, each
    on a thread of its own. Units with a key in common are never handled at the same time."""

    visibility_s: int = whole(60, 1, 86_400)
    """Seconds for which a worker of an at-least-once queue group reserves an event, where its
    handler sets none. It is renewed during the call; when the worker's machine is gone, others may
    have the event after that time."""

    workers: int = whole(4, 1, 1_000)
    """Processes in which this supervisor handles the events of each queue group, each with a
    connection of its own. Any number share a partition, on any number of supervisors. Groups that
    keep the order of events have a process for each partition instead."""


@dataclass(frozen=True, kw_only=True)
class SharingSettings:
    """The sharing of partitions among supervisors.

    The times below work against each other: shorter ones hand over the partitions of a dead
    supervisor sooner, longer ones tolerate a busy machine or a slow network.
    """

    capacity: int | None = whole(None, 0, 100_000, null="no limit")
    """The maximum number of partitions that this supervisor holds; 0 takes none."""

    partitions_per_worker: int | Literal["auto"] = setting(Whole(low=1, high=4_096, word="auto"), 1)
    """The maximum number of partitions of one group and topic that one worker process serves, over
    one session. 1 is a process with a connection for each partition. More saves memory and
    connections where partitions are many, but they take turns: a slow batch keeps the others of its
    worker waiting. auto: as many workers as there are cores share all partitions; a handler that is
    slow or at-least-once has a worker for each of its own."""

    drain_timeout_ms: int = whole(30_000, 0, _HOUR_MS)
    """Milliseconds that workers get to finish their batch after SIGTERM. After that they are
    killed: the batch is rolled back and handled again elsewhere. Stay below the grace period of the
    process that stops this one (Kubernetes: 30 s, so set it there to a little more)."""

    member_ttl_ms: int = whole(5_000, 1_000, 600_000)
    """Milliseconds for which a member without a heartbeat counts as alive, by the database's clock.
    This matters for a machine that hangs; a process that dies is noticed sooner."""

    heartbeat_ms: int = whole(1_000, 100, 300_000)
    """Milliseconds between two heartbeats of a member: less than half of memberTtlMs, so that a
    single lost one costs nothing."""

    suspect_grace_ms: int = whole(2_000, 0, 600_000)
    """Milliseconds that a member, silent for half its memberTtlMs, is watched, at least, before it
    is evicted. More than heartbeatMs, so that no member is evicted because the database itself was
    away, or its clock jumped; up to half of memberTtlMs it costs nothing."""

    reconnect_grace_ms: int = whole(1_000, 0, 600_000)
    """Milliseconds that a member whose connection was cut has to come back before it is evicted. 0
    hands over the partitions of a killed supervisor soonest, and those of one with a short network
    fault needlessly."""

    presence_poll_ms: int = whole(250, 10, 60_000)
    """Milliseconds between two checks by a member that its neighbour's session exists: the time in
    which a death is noticed."""

    zombie_after_ms: int = whole(250, 0, 60_000)
    """Milliseconds that a new owner waits for the session of an evicted one to end by itself before
    it terminates that session."""
