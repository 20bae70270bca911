"""What a supervisor does, given its leases and its workers: every case, and some histories."""

from dataclasses import replace
from itertools import permutations
from uuid import UUID, uuid4

import pytest

from gapless.keys import Partition
from gapless.lease.member import Lease
from gapless.worker.reconcile import Running, reconcile

ME, PEER = uuid4(), uuid4()
P = Partition(group_id="g", topic="t", topic_id=1, partition_id=0)


def lease(
    target: UUID | None, owner: UUID | None, partition_id: int = 0, *, is_paused: bool = False
) -> Lease:
    return Lease(
        group_id="g",
        topic="t",
        topic_id=1,
        partition_id=partition_id,
        lease_no=partition_id + 1,
        group_no=1,
        target=target,
        owner=owner,
        is_paused=is_paused,
    )


# target, owner, worker, its successor is ready, we leave now -> what is to be done
START, DRAIN, NOTHING = "start", "drain", None
CASES = [
    # to be ours
    (ME, None, None, False, False, START),
    (ME, ME, None, False, False, START),  # the worker died, the lease is still ours
    (ME, PEER, None, False, False, START),  # make before break: it waits for its turn
    (ME, None, "waits", False, False, NOTHING),
    (ME, PEER, "waits", False, False, NOTHING),
    (ME, ME, "works", False, False, NOTHING),
    (ME, ME, "works", True, False, NOTHING),  # `ready` is from a plan that was replaced
    (ME, ME, "works", False, True, NOTHING),  # the plan without us is not written yet
    (ME, ME, "drains", False, False, NOTHING),  # it is started anew when this one has ended
    # ours, to be another's
    (PEER, ME, "works", False, False, NOTHING),  # nobody is there to go on: keep working
    (PEER, ME, "works", True, False, DRAIN),
    (PEER, ME, "works", False, True, DRAIN),
    (PEER, ME, "drains", True, True, NOTHING),  # told once
    (PEER, ME, None, True, False, NOTHING),
    # ours, to be nobody's
    (None, ME, "works", False, False, DRAIN),
    (None, ME, None, False, False, NOTHING),
    # not ours, nor to be
    (PEER, PEER, "waits", False, False, DRAIN),
    (PEER, None, "waits", False, False, DRAIN),
    (None, None, "waits", False, False, DRAIN),
    ("gone", "gone", "waits", False, False, DRAIN),  # no lease of ours any more
    ("gone", "gone", "drains", False, False, NOTHING),
]


@pytest.mark.parametrize(("target", "owner", "worker", "is_ready", "leaving", "wanted"), CASES)
def test_every_case(
    target: UUID | str | None,
    owner: UUID | str | None,
    worker: str | None,
    is_ready: bool,
    leaving: bool,
    wanted: str | None,
) -> None:
    leases = (
        [] if target == "gone" else [lease(target, owner)]  # type: ignore[arg-type]
    )
    running = {P: Running(partition=P, draining=worker == "drains")} if worker else {}
    ready = {1} if is_ready else set()
    actions = reconcile(ME, leases, running, ready, leaving_now=leaving)
    assert [(action.kind, action.partition) for action in actions] == (
        [(wanted, P)] if wanted else []
    )


@pytest.mark.parametrize(
    ("target", "owner", "worker", "wanted"),
    [
        (ME, None, None, NOTHING),
        (ME, ME, "works", DRAIN),
        (ME, PEER, "waits", DRAIN),
        (PEER, ME, "works", DRAIN),  # nobody gets ready for it: do not wait for that
        (ME, ME, "drains", NOTHING),
    ],
)
def test_a_paused_partition_has_no_worker(
    target: UUID, owner: UUID | None, worker: str | None, wanted: str | None
) -> None:
    running = {P: Running(partition=P, draining=worker == "drains")} if worker else {}
    actions = reconcile(ME, [lease(target, owner, is_paused=True)], running, set())
    assert [action.kind for action in actions] == ([wanted] if wanted else [])


def test_partitions_do_not_mind_each_other() -> None:
    leases = [lease(ME, None, 0), lease(PEER, ME, 1), lease(ME, ME, 2), lease(PEER, ME, 3)]
    keys = [each.partition for each in leases]
    running = {key: Running(partition=key) for key in keys[1:]}
    actions = reconcile(ME, leases, running, {2})
    assert {(a.kind, a.partition.partition_id) for a in actions} == {("start", 0), ("drain", 1)}


def test_two_groups_on_one_topic_are_two_partitions() -> None:
    mine = lease(ME, None)
    other = replace(mine, group_id="h", lease_no=2, target=PEER, owner=ME)
    running = {other.partition: Running(partition=other.partition)}
    assert [a.kind for a in reconcile(ME, [mine, other], running, {1})] == ["start"]


class World:
    """One partition as its supervisor sees it; does what reconcile() says, until it says nothing."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.running: dict[Partition, Running] = {}
        self.ready: set[int] = set()
        self.did: list[str] = []

    def settle(self, *, leaving_now: bool = False) -> None:
        leases = [self.lease] if self.lease else []
        for action in reconcile(ME, leases, self.running, self.ready, leaving_now=leaving_now):
            self.did.append(action.kind)
            self.running[P] = Running(partition=P, draining=action.kind == "drain")
        assert not reconcile(ME, leases, self.running, self.ready, leaving_now=leaving_now)


def test_a_partition_comes_and_goes() -> None:
    world = World()
    world.settle()
    world.lease = lease(ME, PEER)
    world.settle()
    world.lease = lease(ME, ME)
    world.settle()
    world.lease = lease(PEER, ME)
    world.settle()
    assert world.did == ["start"], "nobody is ready to take over"
    world.ready.add(1)
    world.settle()
    assert world.did == ["start", "drain"]
    world.lease = lease(PEER, None)
    world.running.clear()
    world.settle()
    world.lease = None
    world.settle()
    assert world.did == ["start", "drain"]


def test_a_plan_that_is_taken_back_costs_nothing_but_a_worker() -> None:
    world = World()
    world.lease = lease(ME, PEER)
    world.settle()
    world.lease = lease(PEER, PEER)
    world.settle()
    world.running.clear()
    world.lease = lease(ME, PEER)
    world.settle()
    assert world.did == ["start", "drain", "start"]


def test_a_member_that_leaves_waits_for_its_successors_but_not_for_ever() -> None:
    world = World()
    world.lease = lease(ME, ME)
    world.running[P] = Running(partition=P)
    world.lease = lease(PEER, ME)
    world.settle()
    assert world.did == []
    world.settle(leaving_now=True)
    assert world.did == ["drain"]


def test_each_worker_is_looked_at_whatever_becomes_of_the_others() -> None:
    """One that drains already, one that stays, one that is to end; in whatever order."""
    places = [replace(P, partition_id=number) for number in range(3)]
    workers = [
        Running(partition=places[0], draining=True),
        Running(partition=places[1]),
        Running(partition=places[2]),
    ]
    leases = [lease(ME, ME, 1), lease(PEER, PEER, 2)]
    for order in permutations(workers):
        running = {each.partition: each for each in order}
        [action] = reconcile(ME, leases, running, set())
        assert (action.kind, action.partition) == ("drain", places[2])
