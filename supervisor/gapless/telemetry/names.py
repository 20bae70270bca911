"""All metrics: name, kind, labels, help. No other place defines them.

Names that begin with messaging_ are OpenTelemetry's (semantic conventions for messaging, still in
development there, so they may have to follow), as Prometheus writes them; all others are our own.
A label has few values: groups, topics, partitions, classes of errors; never a key or a member.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

GROUP = ("topic", "group")
PARTITION = (*GROUP, "partition")
SYSTEM = "messaging_system"
"""A label of all OpenTelemetry metrics; its value is `gapless`."""

_TOPIC = "messaging_destination_name"
_GROUP = "messaging_consumer_group_name"
_CALLS = (SYSTEM, _TOPIC, _GROUP)


@dataclass(frozen=True, slots=True)
class Metric:
    """A row of the table.

    source: `here` is of this supervisor and its processes; `gateway` of the scraped gateway;
    `spark` of the queries that a LagListener watches; `log` is the same from any process.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    source: Literal["here", "gateway", "spark", "log"]
    help: str


_TABLE = (
    # Work of handlers, in the processes of this supervisor.
    Metric(
        "messaging_client_consumed_messages_total", "counter", (*_CALLS, "error_type"), "here",
        "Events given to a handler, each time; error_type is the class of its exception, empty "
        "when it returned.",
    ),
    Metric(
        "messaging_client_sent_messages_total", "counter", (*_CALLS, "error_type"), "here",
        "Events that publish() was given inside a handler, each time, by the topic they went to.",
    ),
    Metric(
        "messaging_process_duration_seconds", "histogram", _CALLS, "here",
        "Seconds that a call of a handler took.",
    ),
    Metric(
        "messaging_client_operation_duration_seconds", "histogram",
        (*_CALLS, "messaging_operation_name"), "here",
        "Seconds of a claim (reading the events included), a commit, a publish() in a handler. "
        "While a worker is behind, a COMMIT and the next claim are one round trip: a claim.",
    ),
    # Progress of groups.
    Metric(
        "gapless_lag_events", "gauge", PARTITION, "log",
        "Events with an offset that the group has not passed; units that wait for a retry, are "
        "parked or dead do not count.",
    ),
    Metric(
        "gapless_lag_seconds", "gauge", PARTITION, "log",
        "Age of the oldest of them; 0 when nothing waits.",
    ),
    Metric(
        "gapless_standstill_seconds", "gauge", PARTITION, "log",
        "For how long the group has had events there and passed none; 0 when it is paused.",
    ),
    Metric(
        "gapless_letters", "gauge", (*GROUP, "state"), "log",
        "Units set aside: waiting, parked, dead; a partition counts up to 10000 in each state.",
    ),
    # The log.
    Metric(
        "gapless_log_end_offset", "gauge", ("topic", "partition"), "log",
        "The newest offset of the partition, 0 without any.",
    ),
    Metric(
        "gapless_pending_events", "gauge", ("topic",), "log",
        "Committed events without an offset yet, up to 10000.",
    ),
    Metric(
        "gapless_sequencer_active", "gauge", (), "log",
        "1 while some session has the role of the sequencer.",
    ),
    Metric(
        "gapless_sequencer_runs_total", "counter", (), "here",
        "Runs of this supervisor's sequencer that gave offsets.",
    ),
    Metric(
        "gapless_sequencing_seconds", "histogram", (), "here",
        "Seconds that such a run took.",
    ),
    Metric(
        "gapless_oldest_snapshot_seconds", "gauge", (), "log",
        "Age of the oldest transaction in the database: it keeps dead rows, and its own events.",
    ),
    Metric(
        "gapless_chunks", "gauge", (), "log",
        "Chunks of the event table.",
    ),
    Metric(
        "gapless_retention_held_seconds", "gauge", (), "log",
        "For how long the oldest chunk has been kept beyond its topics' retention, for a group "
        "or a pipeline that is behind; 0 when none is held.",
    ),
    # Compacted topics.
    Metric(
        "gapless_compaction_lag_events", "gauge", ("topic",), "log",
        "Events of a compacted topic that have an offset and were not taken in yet.",
    ),
    Metric(
        "gapless_compaction_standstill_seconds", "gauge", ("topic",), "log",
        "For how long there have been such events and none was taken in; 0 without any.",
    ),
    Metric(
        "gapless_compaction_keys", "gauge", ("topic",), "log",
        "Keys of which the newest event is kept.",
    ),
    Metric(
        "gapless_compaction_bytes", "gauge", (), "log",
        "Bytes on disk of the kept events of all compacted topics; missing without any.",
    ),
    # Members and workers.
    Metric(
        "gapless_lease_owned", "gauge", GROUP, "here",
        "Partitions that this supervisor owns.",
    ),
    Metric(
        "gapless_takeovers_total", "counter", GROUP, "here",
        "Partitions that workers of this supervisor took.",
    ),
    Metric(
        "gapless_fenced_total", "counter", GROUP, "here",
        "Workers that found out that another owner had their partition.",
    ),
    Metric(
        "gapless_worker_restarts_total", "counter", GROUP, "here",
        "Services of a partition that ended unasked: killed, crashed, session lost.",
    ),
    Metric(
        "gapless_database_up", "gauge", (), "here",
        "1 while the database answers this supervisor's exporter; else all that is read from the "
        "database is missing.",
    ),
    Metric(
        "gapless_member", "gauge", (), "here",
        "1 while this supervisor is a member of its groups.",
    ),
    # Of a gateway.
    Metric(
        "gapless_gateway_requests_total", "counter", ("route", "method", "status"), "gateway",
        "Requests that were answered; route is empty for any other path, status 0 for a request "
        "that was cut off.",
    ),
    Metric(
        "gapless_gateway_streams", "gauge", (), "gateway",
        "Streams that run.",
    ),
    Metric(
        "gapless_gateway_feeds", "gauge", (), "gateway",
        "Feeds that read for them: one a topic and filter.",
    ),
    # Of streaming queries of Spark.
    Metric(
        "gapless_query_lag_events", "gauge", ("query", "topic", "partition"), "spark",
        "Events with an offset that a streaming query has not read.",
    ),
    Metric(
        "gapless_query_lag_seconds", "gauge", ("query", "topic", "partition"), "spark",
        "Age of the oldest of them; 0 when nothing waits.",
    ),
)  # fmt: skip

METRICS: Mapping[str, Metric] = MappingProxyType({each.name: each for each in _TABLE})
"""Every metric by its name, in the order of the docs."""
