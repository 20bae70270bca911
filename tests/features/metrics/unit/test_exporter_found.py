"""What Prometheus reads: what was counted here and what a look found, each under its labels."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gapless.features.metrics.collect import found_here, found_in, write
from gapless.features.metrics.look import GroupStanding, LetterCount, TopicEnds
from gapless.status.snapshot import Pending
from gapless.telemetry.meter import BOUNDS_S, Meters, Times

ME, PEER = UUID(int=1), UUID(int=2)
ROW = GroupStanding(
    group_id="g", topic="t", partition_id=0, owner_id=ME, is_paused=False, next_offset=5, lag=3,
    lag_s=1.5, error=None,
)  # fmt: skip
OPERATION_S = "messaging_client_operation_duration_seconds"


def _times(sum_s: float, first: int = 0, last: int = 0) -> Times:
    """Return a histogram with so many in the first bucket, and in the last."""
    return Times([first, *[0] * (len(BOUNDS_S) - 1), last], sum_s)


@pytest.fixture
def meters() -> Meters:
    """Two children of a group, the supervisor itself, and a sequencer."""
    made = Meters(9)
    for who, group in ((0, "g"), (1, "g"), (2, "")):
        made.take(who, group, "t" if group else "")
    for who, events in ((0, 3), (1, 4)):
        meter = made.meter(who)
        assert meter is not None
        meter.consumed(events)
        meter.consumed(1, "KeyError")
        meter.sent("out", events)
        meter.happened("takeover")
        meter.took("process", 1.0)
        meter.took("commit", 0.0001)
    sequencer = made.meter(2)
    assert sequencer is not None
    sequencer.took("sequence", 0.0001)
    sequencer.took("sequence", 99.0)
    made.own("g", "t", "restart")
    return made


def test_what_children_counted_is_added_up(meters: Meters) -> None:
    found = found_here(meters.read(), [("t", "g"), ("t", "idle")], ME)
    assert found["messaging_client_consumed_messages_total"] == {
        ("t", "g", ""): 7, ("t", "g", "KeyError"): 2,
    }  # fmt: skip
    assert found["messaging_client_sent_messages_total"] == {("out", "g", ""): 7}
    assert found["gapless_takeovers_total"] == {("t", "g"): 2, ("t", "idle"): 0}
    assert found["gapless_fenced_total"] == {("t", "g"): 0, ("t", "idle"): 0}
    assert found["gapless_worker_restarts_total"] == {("t", "g"): 1, ("t", "idle"): 0}
    assert found["gapless_member"] == {(): 1.0}


def test_times_are_added_up_bucket_by_bucket(meters: Meters) -> None:
    found = found_here(meters.read(), [], None)
    assert found["gapless_member"] == {(): 0.0}
    (took,) = found["messaging_process_duration_seconds"].values()
    assert isinstance(took, Times)
    assert (took.sum_s, sum(took.counts), took.counts[BOUNDS_S.index(1.0)]) == (2.0, 2, 2)
    assert found[OPERATION_S]["t", "g", "commit"] == _times(first=2, sum_s=0.0002)
    assert set(found[OPERATION_S]) == {("t", "g", each) for each in ("claim", "commit", "publish")}


def test_of_the_sequencer_its_runs_and_how_long_they_took(meters: Meters) -> None:
    found = found_here(meters.read(), [], ME)
    assert found["gapless_sequencer_runs_total"] == {(): 2}
    assert found["gapless_sequencing_seconds"] == {(): _times(first=1, last=1, sum_s=99.0001)}
    assert found_here([], [], ME)["gapless_sequencer_runs_total"] == {(): 0.0}


def test_a_sequencer_that_comes_first_hides_nobody() -> None:
    made = Meters(3)
    made.take(0)
    made.own("g", "t", "restart")
    assert found_here(made.read(), [], ME)["gapless_worker_restarts_total"] == {("t", "g"): 1}


def _look(**said: Any) -> Any:
    return SimpleNamespace(
        **{
            "standings": [], "ends": [], "letters": [], "pending": [], "measured": {},
            "chunks": SimpleNamespace(chunks=3, held_s=4.5),
            "sequencer": SimpleNamespace(pid=None),
            "server": SimpleNamespace(oldest_transaction_s=None), "standstill_s": {},
        } | said
    )  # fmt: skip


def test_how_far_groups_are() -> None:
    rows = [ROW, replace(ROW, partition_id=1, lag_s=None), replace(ROW, group_id="h", lag_s=0.0)]
    found = found_in(_look(standings=rows, standstill_s={ROW.key: 8.0}), [], ME)
    zero, one, other = ("t", "g", "0"), ("t", "g", "1"), ("t", "h", "0")
    assert found["gapless_lag_events"] == {zero: 3, one: 3, other: 3}
    assert found["gapless_lag_seconds"] == {zero: 1.5, other: 0.0}, "of one that is missing nothing"
    assert found["gapless_standstill_seconds"] == {zero: 8.0}


@pytest.mark.parametrize(("me", "owned"), [(ME, 2), (PEER, 1), (None, 0)])
def test_what_it_owns(me: UUID | None, owned: int) -> None:
    owners = (ME, ME, PEER, None)
    rows = [replace(ROW, partition_id=n, owner_id=who) for n, who in enumerate(owners)]
    found = found_in(_look(standings=rows), [("t", "g"), ("t", "idle")], me)
    assert found["gapless_lease_owned"] == {("t", "g"): owned, ("t", "idle"): 0}


def test_what_the_log_has() -> None:
    ends = [TopicEnds(topic="t", last_offsets=[7, 0]), TopicEnds(topic="u", last_offsets=[9])]
    letters = [LetterCount(group_id="g", topic="t", state="dead", units=5)]
    pending = [Pending(topic="u", events=6, oldest_s=1.0)]
    found = found_in(_look(ends=ends, letters=letters, pending=pending), [], ME)
    assert found["gapless_log_end_offset"] == {("t", "0"): 7, ("t", "1"): 0, ("u", "0"): 9}
    assert found["gapless_letters"] == {("t", "g", "dead"): 5}
    assert found["gapless_pending_events"] == {("t",): 0, ("u",): 6}
    assert found["gapless_chunks"] == {(): 3}
    assert found["gapless_retention_held_seconds"] == {(): 4.5}


def test_who_sequences_and_what_keeps_rows() -> None:
    found = found_in(_look(), [], ME)
    assert found["gapless_sequencer_active"] == {(): 0.0}
    assert found["gapless_oldest_snapshot_seconds"] == {(): 0.0}
    busy = _look(
        sequencer=SimpleNamespace(pid=5), server=SimpleNamespace(oldest_transaction_s=12.5)
    )
    found = found_in(busy, [], ME)
    assert found["gapless_sequencer_active"] == {(): 1.0}
    assert found["gapless_oldest_snapshot_seconds"] == {(): 12.5}


def test_it_is_written_as_prometheus_reads_it(meters: Meters) -> None:
    found = {**found_here(meters.read(), [("t", "g")], ME), **found_in(_look(), [], ME)}
    text, kind = write(found, "")
    assert kind.startswith("text/plain")
    families = {each.name: each for each in text_string_to_metric_families(text.decode())}
    took = families["messaging_process_duration_seconds"].samples
    assert {each.labels["messaging_system"] for each in took} == {"gapless"}
    assert {each.labels["messaging_destination_name"] for each in took} == {"t"}
    assert {each.labels["messaging_consumer_group_name"] for each in took} == {"g"}
    buckets = {each.labels.get("le"): each.value for each in took}
    assert (buckets["0.5"], buckets["1.0"], buckets["+Inf"]) == (0, 2, 2)
    assert [each.value for each in took if each.name.endswith("_sum")] == [2.0]
    (takeovers,) = families["gapless_takeovers"].samples
    assert (takeovers.labels, takeovers.value) == ({"topic": "t", "group": "g"}, 2.0)
    assert families["gapless_lag_events"].type == "gauge", "though nothing was found"
    assert list(families["gapless_sequencing_seconds"].samples[0].labels) == ["le"]


def test_a_reader_may_take_the_open_format() -> None:
    text, kind = write({}, "application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")


def test_what_the_table_does_not_know_is_refused() -> None:
    with pytest.raises(KeyError):
        write({"gapless_unheard_of": {(): 1.0}}, "")
