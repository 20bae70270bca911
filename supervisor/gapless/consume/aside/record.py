"""Set a failed unit aside with its error, in the open transaction (I9)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from psycopg import Connection

from gapless.consume.job import Job
from gapless.consume.session import after_commit, run, run_untimed
from gapless.consume.unit import Span
from gapless.consume.verdict.failure import Failure
from gapless.consume.verdict.policy import Verdict
from gapless.keys import Partition
from gapless.telemetry import spans

log = logging.getLogger("gapless.worker")


def set_aside(job: Job, span: Span, failure: Failure, verdict: Verdict) -> None:
    """Record all events of a unit, and its state by the verdict, in the open transaction.

    The handler gets the same view of it again; if it failed for some subscriptions, only for these.
    """
    partition = job.assignment.partition
    params = {
        **partition.params,
        **failure.params(job.terms.worker),
        "first_offset": span.first_offset,
        "message_ids": list(span.ids),
        "state": verdict.state,
        "retry_after_s": verdict.retry_after_s,
        "parks": job.terms.policy.parks,
        **span.seen(failure.only),
    }
    run_untimed(job.conn, "set_aside", params)
    spans.verdict(failure.error, verdict.state, failure.attempts)
    if verdict.state == "dead":
        after_commit(job.conn, partial(tell_death, partition, span.first_offset, params))


def tell_death(partition: Partition, first_offset: int, params: Mapping[str, object]) -> None:
    """Log that a unit becomes a dead letter: its place, its error, and the command that shows it.

    params: of Failure.params(). Called once the dead letter is committed.
    """
    place = f"{partition.name}@{first_offset}"
    log.warning("%s: dead letter: %s (gapless dlq show %s)", place, params["reason"], place)


def failing_keys(conn: Connection[Any], units: int, of: Partition | str) -> tuple[int, float]:
    """Return the number of keys of the last `units` failed units, and the database's clock.

    of: the partition of a group, or a group with all of its partitions. Before: `conn` is idle.
    """
    everywhere = {"group_id": of, "topic_id": None, "partition_id": None}
    where = of.params if isinstance(of, Partition) else everywhere
    ((keys, now_s),) = run(conn, "failing_keys", {**where, "units": units})
    return int(keys), float(now_s)


def settle_parked(
    conn: Connection[Any], partition: Partition, first_offsets: Sequence[int]
) -> None:
    """Release the parked units among these that have none in front of them; COMMIT is next."""
    params = {**partition.params, "first_offsets": list(first_offsets)}
    run(conn, "settle_parked", params)
