"""All settings: name, type, range and default. No other place defines them.

A setting's key in YAML is its attribute in camel case (`wait_period_ms` is `waitPeriodMs`).
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from gapless.settings.kinds import Address, Choice, Dsn, Items, Kind, Text, Truth, Whole, Wholes
from gapless.settings.schema import DEFAULT_SCHEMA, SchemaName

if TYPE_CHECKING:
    from collections.abc import Mapping

SECTION = "gapless"
"""Names of our own settings begin with this prefix: `gapless.topic`, GAPLESS_TOPIC."""

CLASSIC_SECTION = "db-event-consumer"
"""Settings of light-portal's file may have this prefix too, so the file works unchanged."""

_DAY_MS = 86_400_000
_HOUR_MS = 3_600_000
_MONTH_S = 31 * 86_400
_CENTURY_S = 36_500 * 86_400
_RETRIES_MAX = 100
_NAME_CHARACTERS_MAX = 200
_REFERENCE_CHARACTERS_MAX = 1_000


def _setting(kind: Kind, default: object, *, classic: bool = False) -> Any:
    """Declare a setting; Any, because the annotation beside it is the type, as with field()."""
    metadata = {"kind": kind, "classic": classic}
    return field(default=default, metadata=metadata, repr=not isinstance(kind, Dsn))


def _whole(default: int | None, low: int, high: int, *, null: str = "") -> Any:
    return _setting(Whole(low=low, high=high, null=null), default)


def _classic(default: int, low: int, high: int) -> Any:
    return _setting(Whole(low=low, high=high), default, classic=True)


def _name(default: str | None, *, null: str = "", classic: bool = False) -> Any:
    return _setting(Text(longest=_NAME_CHARACTERS_MAX, null=null), default, classic=classic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, found and checked by `load`; the defaults are those of gapless.yml."""

    dsn: str | None = _setting(Dsn(null="libpq's own environment"), None)
    """The DSN of the database; None leaves it to libpq's environment (see `dsn_is_configured`)."""

    schema: str = _setting(SchemaName(), DEFAULT_SCHEMA)
    """The schema of gapless in the database; all programs of an installation use the same."""

    app: str | None = _setting(Text(longest=_REFERENCE_CHARACTERS_MAX, null="none"), None)
    """The program whose handlers `gapless run` runs: `module:attribute` or a path."""

    handlers: tuple[str, ...] = _setting(
        Items(item=Text(longest=_REFERENCE_CHARACTERS_MAX), null="none"), ()
    )
    """More handlers, each as `module:attribute`, in any order; may be empty."""

    instance_name: str | None = _name(None, null="host name and process id")
    """The name of this supervisor for people; None: see `name_for_people`."""

    log_format: Literal["auto", "text", "json"] = _setting(
        Choice(words=("auto", "text", "json")), "auto"
    )
    """The format of the log; auto is the live console on a terminal, and text elsewhere."""

    metrics: str | None = _setting(Address(null="no metrics"), None)
    """The address of metrics and health, as HOST:PORT; None: they are not served."""

    standstill_s: int = _whole(60, 1, 86_400)
    """The time without progress, with events waiting, after which health names a partition."""

    gateway: str | None = _setting(Address(null="127.0.0.1:8080"), None)
    """The address of `gapless gateway`, as HOST:PORT; None is 127.0.0.1:8080."""

    gateway_sessions: int = _whole(16, 1, 500)
    """The maximum number of a gateway's sessions, and so of its concurrent requests."""

    max_event_bytes: int = _whole(1_048_576, 1_024, 268_435_456)
    """The maximum size of the JSON of one event that a gateway accepts."""

    max_batch_bytes: int = _whole(16_777_216, 1_024, 1_073_741_824)
    """The maximum size of the body of a request that a gateway accepts."""

    max_batch_events: int = _whole(10_000, 1, 1_000_000)
    """The maximum number of events in the body of a request to a gateway."""

    connect_timeout_s: int = _whole(10, 1, 600)
    """The time limit of one attempt to connect."""

    start_timeout_s: int = _whole(0, 0, 86_400)
    """The wait of `gapless run` at its start for a database that is away; 0 is forever."""

    exit_on_revoked: bool = _setting(Truth(), False)  # noqa: FBT003 - a default
    """Whether a supervisor ends when its role loses its grants, or waits for their return."""

    statement_timeout_ms: int = _whole(0, 0, _DAY_MS)
    """The server's statement_timeout on sessions that run handlers; 0 is none."""

    topic: str = _name("outbox")
    """The topic of handlers that name none."""

    group_id: str | None = _name(None, null="the group each handler names", classic=True)
    """The consumer group of handlers that name none."""

    total_partitions: int = _classic(8, 1, 4_096)
    """The number of partitions of a new topic; an existing topic keeps its own."""

    create_topics: bool = _setting(Truth(), False)  # noqa: FBT003 - a default
    """Whether `gapless run` creates the topics of its handlers that do not exist."""

    chunk_events: int = _whole(1_000_000, 10_000, 1_000_000_000)
    """The number of ids in one chunk of outbox_message_t: retention drops a chunk at once."""

    chunks_ahead: int = _whole(2, 1, 64)
    """The number of empty chunks that stand ready beyond the one being written."""

    retention_s: int | None = _whole(None, 1, _CENTURY_S, null="forever")
    """The minimum time that a new topic keeps its events; None is forever."""

    retention_check_s: int = _whole(60, 1, 86_400)
    """The time between two looks of the sequencer for chunks that may be dropped."""

    dead_letter_retention_s: int = _whole(2_592_000, 1, _CENTURY_S)
    """The time that a dead letter stays after it was handled after all, or discarded."""

    audit_retention_s: int = _whole(31_536_000, 1, _CENTURY_S)
    """The time that the record of people's actions on groups is kept."""

    sequencer_pause_ms: int = _whole(1, 0, 1_000)
    """The rest of the awake sequencer between two runs."""

    batch_size: int = _classic(100, 1, 100_000)
    """The number of events of one claim by a worker; it extends to the end of a unit (I5)."""

    wait_period_ms: int = _classic(1_000, 10, _HOUR_MS)
    """The longest wait for a notification before a look without one."""

    group_by: Literal["transaction", "user"] = _setting(
        Choice(words=("transaction", "user")), "transaction"
    )
    """The property that makes neighbouring events one unit."""

    max_processing_ms: int = _whole(300_000, 100, _DAY_MS)
    """The longest time for a batch before its worker counts as stuck and is replaced (I8)."""

    stream_above_events: int = _whole(10_000, 1, 10_000_000)
    """The number of events above which a unit is streamed to its handler, not held in memory."""

    max_units_per_savepoint_batch: int = _whole(64, 1, 64)
    """The number of units, each in a savepoint, that share a commit after a handler failed."""

    on_failure: Literal["dead-letter", "retry", "park-key", "block"] = _setting(
        Choice(words=("dead-letter", "retry", "park-key", "block")), "dead-letter"
    )
    """The failure policy of groups whose handler sets none."""

    retry_delays_s: tuple[float, ...] = _setting(
        Wholes(low=0, high=_MONTH_S, most=_RETRIES_MAX, null="no other attempt"), (60, 300)
    )
    """The time until each further attempt at a unit that failed (retry, park-key)."""

    auto_offset_reset: Literal["error", "earliest", "latest"] = _setting(
        Choice(words=("error", "earliest", "latest")), "error"
    )
    """The place where a group continues if retention dropped events it had not handled."""

    max_crashes: int = _whole(3, 1, 1_000)
    """The number of workers that die at one unit before it is dead-lettered uncalled (I8)."""

    brake_keys: int = _whole(10, 0, 20)
    """The number of keys among 20 failed units in a row that slows a partition down; 0: never."""

    delivery: Literal["exactly-once", "at-least-once"] = _setting(
        Choice(words=("exactly-once", "at-least-once")), "exactly-once"
    )
    """Whether handlers write through our transaction, or have their effects elsewhere."""

    concurrency: int = _whole(1, 1, 1_000)
    """The number of concurrent calls of an at-least-once handler in a worker."""

    visibility_s: int = _whole(60, 1, 86_400)
    """The time for which an event of an at-least-once queue is reserved, renewed during a call."""

    workers: int = _whole(4, 1, 1_000)
    """The number of processes of this supervisor for the events of each queue group."""

    webhook_allow: tuple[str, ...] = _setting(
        Items(item=Text(longest=_NAME_CHARACTERS_MAX), null="none"), ()
    )
    """Private networks whose addresses webhooks may call, such as 10.1.2.0/24."""

    webhook_ca_file: str | None = _setting(
        Text(longest=_REFERENCE_CHARACTERS_MAX, null="the usual authorities"), None
    )
    """Certificates (PEM) that webhooks trust in addition to those of the usual authorities."""

    capacity: int | None = _whole(None, 0, 100_000, null="no limit")
    """The maximum number of partitions that this supervisor may hold; None is no limit."""

    partitions_per_worker: int | Literal["auto"] = _setting(
        Whole(low=1, high=4_096, word="auto"), 1
    )
    """The maximum number of partitions of one worker, over one session; auto: as many as fit."""

    drain_timeout_ms: int = _whole(30_000, 0, _HOUR_MS)
    """The time for workers to finish their batch after SIGTERM before they are killed."""

    member_ttl_ms: int = _whole(5_000, 1_000, 600_000)
    """The time for which a member without a heartbeat counts as alive."""

    heartbeat_ms: int = _whole(1_000, 100, 300_000)
    """The time between two heartbeats of a member; less than half of member_ttl_ms."""

    suspect_grace_ms: int = _whole(2_000, 0, 600_000)
    """The minimum time to watch a member, silent for half its ttl, before it is evicted."""

    reconnect_grace_ms: int = _whole(1_000, 0, 600_000)
    """The time for a member that lost its session to come back before it is evicted."""

    presence_poll_ms: int = _whole(250, 10, 60_000)
    """The time between two checks by a member that its neighbour's session exists."""

    zombie_after_ms: int = _whole(250, 0, 60_000)
    """The wait of a new owner for an evicted one's session before it terminates it."""

    def name_for_people(self) -> str:
        """Name the calling process in logs and status; never an identity, names may repeat."""
        return self.instance_name or f"{socket.gethostname()}-{os.getpid()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The facts about one setting, except its value."""

    key: str
    attribute: str
    kind: Kind
    default: object
    names: tuple[str, ...]
    """The names in placeholders and values file; the first one wins over the rest."""
    variables: tuple[str, ...]
    """The names in the environment, in the same order."""


def environment_name(name: str) -> str:
    """Return the variable for a name, as light-4j does: upper case, other characters become _."""
    return re.sub(r"[^A-Za-z0-9]", "_", name).upper()


def _catalog() -> dict[str, Setting]:
    catalog = {}
    for declared in fields(Settings):
        key = re.sub(r"_([a-z])", lambda match: match[1].upper(), declared.name)
        sections = (SECTION, CLASSIC_SECTION) if declared.metadata["classic"] else (SECTION,)
        names = tuple(f"{section}.{key}" for section in sections)
        catalog[key] = Setting(
            key=key,
            attribute=declared.name,
            kind=declared.metadata["kind"],
            default=declared.default,
            names=names,
            variables=tuple(map(environment_name, names)),
        )
    return catalog


CATALOG: Mapping[str, Setting] = MappingProxyType(_catalog())
"""Every setting by its key in YAML."""

RETIRED: Mapping[str, str] = MappingProxyType(
    {"partitionId": "supervisors share the partitions among themselves"}
)
"""Keys of light-portal's file without a meaning here, and why: ignored with a warning."""
