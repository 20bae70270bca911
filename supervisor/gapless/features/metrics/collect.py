"""The metrics for Prometheus: the table of metrics, filled from shared memory and from a look.

prometheus-client writes them in the format that the reader asks for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import cast
from uuid import UUID

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from gapless.features.metrics.look import DatabaseLook, Key
from gapless.telemetry.meter import BOUNDS_S, Operation, Reading, Times
from gapless.telemetry.names import METRICS, SYSTEM

Labels = tuple[str, ...]
Found = Mapping[str, Mapping[Labels, float | Times]]
"""The values of each metric, by name: a number, or a histogram, for each set of labels."""

_CLIENT_OPERATIONS: tuple[Operation, ...] = ("claim", "commit", "publish")
_EVENTS = {
    "gapless_takeovers_total": "takeover",
    "gapless_fenced_total": "fenced",
    "gapless_worker_restarts_total": "restart",
}


def found_here(
    readings: Iterable[Reading], groups: Iterable[tuple[str, str]], member_id: UUID | None
) -> Found:
    """Return the counters of this supervisor's processes. groups: its (topic, group) pairs."""
    found: defaultdict[str, dict[Labels, float | Times]] = defaultdict(dict)
    found["gapless_member"][()] = float(member_id is not None)
    found["gapless_sequencer_runs_total"][()] = 0.0
    for name in _EVENTS:
        found[name] = _zeros(groups)
    for each in readings:
        if not each.group:
            times = each.times["sequence"]
            _add_times(found["gapless_sequencing_seconds"], (), times)
            _add(found["gapless_sequencer_runs_total"], (), sum(times.counts))
            continue
        for name, event in _EVENTS.items():
            _add(found[name], (each.topic, each.group), each.events[event])  # type: ignore[index]
        _calls(found, each)
    return found


def _calls(found: defaultdict[str, dict[Labels, float | Times]], each: Reading) -> None:
    labels: Labels = (each.topic, each.group)
    consumed = found["messaging_client_consumed_messages_total"]
    for error_type, events in each.consumed.items():
        _add(consumed, (*labels, error_type), events)
    sent = found["messaging_client_sent_messages_total"]
    for (topic, error_type), events in each.sent.items():
        _add(sent, (topic, each.group, error_type), events)
    _add_times(found["messaging_process_duration_seconds"], labels, each.times["process"])
    for operation in _CLIENT_OPERATIONS:
        _add_times(
            found["messaging_client_operation_duration_seconds"],
            (*labels, operation),
            each.times[operation],
        )


def found_in(
    look: DatabaseLook, groups: Iterable[tuple[str, str]], member_id: UUID | None
) -> Found:
    """Return the metrics of the database."""
    owned = _zeros(groups)
    for each in look.standings:
        if member_id is not None and each.owner_id == member_id:
            _add(owned, (each.topic, each.group_id), 1)
    where: dict[Key, Labels] = {
        each.key: (each.topic, each.group_id, str(each.partition_id)) for each in look.standings
    }
    return {
        "gapless_lag_events": {where[each.key]: each.lag for each in look.standings},
        "gapless_lag_seconds": {
            where[each.key]: each.lag_s for each in look.standings if each.lag_s is not None
        },
        "gapless_standstill_seconds": {
            where[key]: seconds for key, seconds in look.standstill_s.items()
        },
        "gapless_letters": {
            (each.topic, each.group_id, each.state): each.units for each in look.letters
        },
        "gapless_log_end_offset": {
            (each.topic, str(partition)): offset
            for each in look.ends
            for partition, offset in enumerate(each.last_offsets)
        },
        "gapless_pending_events": {
            **{(each.topic,): 0 for each in look.ends},
            **{(each.topic,): each.events for each in look.pending},
        },
        "gapless_sequencer_active": {(): float(look.sequencer.pid is not None)},
        "gapless_oldest_snapshot_seconds": {(): look.server.oldest_transaction_s or 0.0},
        "gapless_chunks": {(): look.chunks.chunks},
        "gapless_retention_held_seconds": {(): look.chunks.held_s},
        **look.measured,
        "gapless_lease_owned": owned,
    }


def families(found: Found, *, only_found: bool = False) -> Iterator[Metric]:
    """Yield the found metrics, in the order of the table, as objects of prometheus-client.

    only_found: leave out those of a supervisor that are not found. Raises KeyError for a metric
    that the table lacks.
    """
    for name in found:
        METRICS[name]
    for metric in METRICS.values():
        may_lack = only_found or metric.source in ("gateway", "spark")
        if may_lack and metric.name not in found:
            continue
        is_standard = SYSTEM in metric.labels
        for_table = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}
        values = found.get(metric.name, {})
        if metric.kind == "histogram":
            histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
            for labels, times in values.items():
                _add_histogram(histogram, _all(labels, is_standard=is_standard), times)
            yield histogram
            continue
        family = for_table[metric.kind](metric.name, metric.help, labels=metric.labels)
        for labels, value in values.items():
            family.add_metric(_all(labels, is_standard=is_standard), cast("float", value))
        yield family


def write(found: Found, accept: str, *, only_found: bool = False) -> tuple[bytes, str]:
    """Return the text of all metrics, and its type; accept: the formats that the reader takes."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(lambda: families(found, only_found=only_found)))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Collected(Collector):
    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        return self._collect()


def _all(labels: Labels, *, is_standard: bool) -> Labels:
    return ("gapless", *labels) if is_standard else labels


def _zeros(groups: Iterable[Labels]) -> dict[Labels, float | Times]:
    return dict.fromkeys(groups, 0.0)


def _add(numbers: dict[Labels, float | Times], labels: Labels, more: float) -> None:
    numbers[labels] = cast("float", numbers.get(labels, 0.0)) + more


def _add_times(histograms: dict[Labels, float | Times], labels: Labels, more: Times) -> None:
    so_far = histograms.get(labels)
    if not isinstance(so_far, Times):
        histograms[labels] = more
        return
    counts = [one + other for one, other in zip(so_far.counts, more.counts, strict=True)]
    histograms[labels] = Times(counts=counts, sum_s=so_far.sum_s + more.sum_s)


def _add_histogram(family: HistogramMetricFamily, labels: Labels, times: float | Times) -> None:
    assert isinstance(times, Times)
    bounds = [*(repr(bound) for bound in BOUNDS_S), "+Inf"]
    buckets = list(zip(bounds, accumulate(times.counts), strict=True))
    family.add_metric(labels, buckets=buckets, sum_value=times.sum_s)
