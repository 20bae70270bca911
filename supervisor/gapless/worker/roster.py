"""The workers and the partitions they serve: the parent's books, without forks or kills."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from uuid import UUID

from gapless.keys import Partition
from gapless.lease.member import Lease
from gapless.worker.bells import bell_of
from gapless.worker.child import Child
from gapless.worker.post_mortem import Ended
from gapless.worker.reconcile import Running
from gapless.worker.spec import ExitCode

RING_MAX = 500  # partitions in one order: they fit a pipe that has room


@dataclass(slots=True)
class _Service:
    """A partition that a worker serves, or waits for."""

    partition: Partition
    lease_no: int
    draining: bool = False
    channel: str = field(init=False)

    def __post_init__(self) -> None:
        self.channel = bell_of(self.partition)


@dataclass(slots=True)
class Worker:
    """A worker process and its partitions, by lease_no.

    solo: it serves a partition at which its last process died, and takes no others for now.
    unrung: partitions with work of which the worker has not been told yet.
    """

    child: Child
    member_id: UUID
    services: dict[int, _Service]
    solo: bool
    unrung: set[int] = field(default_factory=set)

    @property
    def partitions(self) -> list[Partition]:
        """The partitions that it serves, or waits for."""
        return [each.partition for each in self.services.values()]

    @property
    def stays(self) -> bool:
        """Whether it may share, and is not about to end."""
        is_ending = self.child.draining or self.child.killed
        return not (self.solo or is_ending or all(each.draining for each in self.services.values()))

    @property
    def is_moving(self) -> bool:
        """Whether it was told to let go of a partition, and has not yet."""
        return any(each.draining for each in self.services.values())

    def ring(self, channels: Set[str], lease_nos: Set[int] = frozenset()) -> None:
        """Tell it the partitions that have work; if its pipe is full, tell it later."""
        for each in self.services.values():
            if each.channel in channels or each.lease_no in lease_nos:
                self.unrung.add(each.partition.partition_id)
        if self.unrung and self.child.has_room():
            numbers = sorted(self.unrung)[:RING_MAX]
            self.unrung.difference_update(numbers)
            self.child.order("ring", *numbers)

    def can_take(self, partition: Partition, member_id: UUID, partitions_max: int) -> bool:
        """Tell whether it may serve one more: of its own group and topic, unless it is leaving."""
        return (
            self.stays
            and self.member_id == member_id
            and len(self.services) < partitions_max
            and any(
                not each.draining
                and each.partition.group_id == partition.group_id
                and each.partition.topic_id == partition.topic_id
                for each in self.services.values()
            )
        )


class Roster:
    """All workers; each partition is served by at most one."""

    def __init__(self) -> None:
        self.workers: list[Worker] = []

    def running(self) -> dict[Partition, Running]:
        """Return the partitions that are served or waited for."""
        return {
            each.partition: Running(
                partition=each.partition, draining=each.draining or worker.child.draining
            )
            for worker in self.workers
            for each in worker.services.values()
        }

    def crew(self, group_id: str, topic: str) -> list[Worker]:
        """Return the workers of a group and topic."""
        return [
            worker
            for worker in self.workers
            if any((each.group_id, each.topic) == (group_id, topic) for each in worker.partitions)
        ]

    def hire(self, child: Child, lease: Lease, member_id: UUID, *, solo: bool) -> None:
        """Enter a worker that was just forked for a partition."""
        services = {lease.lease_no: _Service(lease.partition, lease.lease_no)}
        self.workers.append(Worker(child, member_id, services, solo))

    def assign(self, lease: Lease, member_id: UUID, partitions_max: int) -> bool:
        """Let the worker with the fewest partitions serve one more; return False if none can."""
        able = [w for w in self.workers if w.can_take(lease.partition, member_id, partitions_max)]
        if not able:
            return False
        worker = min(able, key=lambda worker: len(worker.services))
        worker.services[lease.lease_no] = _Service(lease.partition, lease.lease_no)
        worker.child.order("serve", lease.lease_no, lease.partition_id)
        _rename(worker)
        return True

    def has_room_beside(self, worker: Worker, partitions_max: int) -> bool:
        """Tell whether another worker could take the only partition of this one."""
        return len(worker.services) == 1 and any(
            other.can_take(partition, worker.member_id, partitions_max)
            for partition in worker.partitions
            for other in self.workers
            if other is not worker
        )

    def drop(self, partition: Partition) -> None:
        """Tell a partition's worker to finish its batch and let go of it."""
        for worker in self.workers:
            for each in worker.services.values():
                if each.partition == partition and not each.draining:
                    each.draining = True
                    worker.child.order("drop", each.lease_no)

    def hear(self, worker: Worker) -> Iterator[Ended]:
        """Yield the services that ended while their worker continues with others."""
        for word, lease_no, code in worker.child.heard():
            assert word == "ended"
            service = worker.services.pop(int(lease_no), None)
            if service is not None:
                _rename(worker)
                yield _ended(service, worker, int(code))

    def dismiss(self, worker: Worker, code: int) -> list[Ended]:
        """Remove a worker that has ended from the books; return the services it had until then."""
        ended = [*self.hear(worker)]
        ended += [_ended(service, worker, code) for service in worker.services.values()]
        self.workers.remove(worker)
        return ended


def _ended(service: _Service, worker: Worker, code: int) -> Ended:
    asked = code == ExitCode.DRAINED and (service.draining or worker.child.draining)
    return Ended(service.partition, service.lease_no, code, unasked=not asked)


def _rename(worker: Worker) -> None:
    """Name a worker after its partitions: group/topic/0,3,7."""
    served = worker.partitions
    if served:
        numbers = ",".join(map(str, sorted(each.partition_id for each in served)))
        worker.child.name = f"worker {served[0].group_id}/{served[0].topic}/{numbers}"
