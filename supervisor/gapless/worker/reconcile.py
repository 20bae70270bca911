"""The difference between wanted and running workers: those to start, those to drain (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from gapless.keys import Partition
from gapless.lease.member import Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A worker process of ours; `draining`: it was told to finish and exit."""

    partition: Partition
    draining: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Start a worker for a partition, or tell its worker to drain."""

    kind: Literal["start", "drain"]
    partition: Partition


def reconcile(
    me: UUID,
    leases: Iterable[Lease],
    running: Mapping[Partition, Running],
    ready: set[int],
    *,
    leaving_now: bool = False,
) -> list[Action]:
    """Return the actions that make the workers fit the leases.

    ready: lease_no of partitions whose next owner is forked, connected and waiting. Until it is,
    the present owner keeps working: a hand-over costs one batch, not a start (make before break).
    leaving_now: wait for successors no longer.
    A paused partition has no worker, nor has its successor; its target stays, for later.
    """
    by_partition = {lease.partition: lease for lease in leases}
    actions = [
        Action(kind="start", partition=partition)
        for partition, lease in by_partition.items()
        if lease.target == me and not lease.is_paused and partition not in running
    ]
    for partition, worker in running.items():
        if worker.draining:
            continue
        lease = by_partition.get(partition)
        if lease is not None and lease.target == me and not lease.is_paused:
            continue
        keeps_working = (
            lease is not None
            and not lease.is_paused
            and lease.owner == me
            and lease.target is not None
            and lease.lease_no not in ready
        )
        if leaving_now or not keeps_working:
            actions.append(Action(kind="drain", partition=partition))
    return actions
