"""The things that a worker has for the partition of a group: its session, its board and its bell."""

from typing import Any

from gapless.consume.user.handler import Handler
from gapless.settings import Settings
from gapless.worker.board import Board
from gapless.worker.service import Shared
from gapless.worker.spec import WorkerSpec
from gapless.worker.wakeup import Wakeup
from support.turn import terms
from support.world import Group


def lease_no(group: Group) -> int:
    (found,) = (each.lease_no for each in group.member.leases())
    return found


def shared(group: Group, worker: Handler, **said: Any) -> Shared:
    """Return what a worker of this partition alone has; said: as for terms()."""
    spec = WorkerSpec(
        dsn=group.world.dsn,
        supervisor_pid=0,
        close_fds=(),
        slot=0,
        settings=Settings(zombie_after_ms=60_000),
        partition=group.assignment.partition,
        lease_no=lease_no(group),
        partitions_max=1,
        is_auto=False,
        member_id=group.member.member_id,
        handler=worker,
        terms=terms(worker, **said),
        former_end="",
    )
    return Shared(spec, group.conn, Board(1), Wakeup())
