"""The worker's side of a lease: wait for the partition, take it, install the fence, release it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg import Connection

from gapless.db.locked import lock_timeout
from gapless.db.queries import query
from gapless.errors import UnplacedError
from gapless.failpoints import hit
from gapless.keys import Assignment, Partition

READY_EVERY_MS = 250
_UNPLACED = "GL410"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A lease that was taken. `unclean`: the former owner died, or was evicted, with it."""

    assignment: Assignment
    unclean: bool


def announce(conn: Connection[Any], partition: Partition) -> None:
    """Tell the present owner that its successor is ready, so that it drains now, not earlier."""
    conn.execute(query("lease", "ready"), partition.params)
    hit("acquire.announced")


def lock(conn: Connection[Any], lease_no: int) -> bool:
    """Queue for the partition's advisory lock for at most READY_EVERY_MS.

    The lock means that one handler runs at a time. A waiting session holds back vacuum, so its
    wait has a limit.
    """
    try:
        with lock_timeout(conn, READY_EVERY_MS):
            conn.execute(query("lease", "lock_partition"), {"lease_no": lease_no})
    except psycopg.errors.LockNotAvailable:
        return False
    hit("acquire.locked")
    return True


def try_lock(conn: Connection[Any], lease_no: int) -> bool:
    """Take the partition's advisory lock if it is free; a worker of several never waits for one."""
    row = conn.execute(query("lease", "try_lock_partition"), {"lease_no": lease_no}).fetchone()
    if row != (True,):
        return False
    hit("acquire.locked")
    return True


def unlock(conn: Connection[Any], lease_no: int) -> None:
    """Release the partition's advisory lock."""
    conn.execute(query("lease", "unlock_partition"), {"lease_no": lease_no})


def take(conn: Connection[Any], partition: Partition, member_id: UUID) -> Assignment | None:
    """Take the lease with a new epoch; None when this member is not its target (yet, or any more).

    Before: this session holds the partition's advisory lock.
    """
    token = uuid4()
    row = conn.execute(
        query("lease", "acquire"),
        {**partition.params, "member_id": member_id, "token": token},
    ).fetchone()
    if row is None or row[0] is None:
        return None
    hit("acquire.taken")
    return Assignment(partition=partition, epoch=row[0], token=token)


def try_take(
    conn: Connection[Any], lease_no: int, partition: Partition, member_id: UUID
) -> Assignment | None:
    """Take lock and lease if both are available now; otherwise take neither, and return None.

    With the lease but no lock, the owner has lost its session, but not its lease. With the lock but
    no lease, this member is not the target, or not any more, and makes way.
    """
    if not try_lock(conn, lease_no):
        return None
    assignment = take(conn, partition, member_id)
    if assignment is None:
        unlock(conn, lease_no)
    return assignment


def install(
    conn: Connection[Any], assignment: Assignment, wait_ms: int | None = None
) -> Held | None:
    """Make the fence valid: no former owner can commit from now on. None if we are a former owner.

    MUST be a statement apart from take(): it waits for a late owner's open transaction, and the
    lease row must not be locked at that time. Raises LockNotAvailable after wait_ms (READY_EVERY_MS
    if None): try again; UnplacedError when the group has no row for the fence.
    """
    try:
        with lock_timeout(conn, READY_EVERY_MS if wait_ms is None else wait_ms):
            row = conn.execute(query("lease", "install_fence"), assignment.params).fetchone()
    except psycopg.Error as error:
        if error.sqlstate == _UNPLACED:
            raise UnplacedError(str(assignment.partition)) from error
        raise
    hit("acquire.installed")
    if row is None or row[0] is None:
        return None
    return Held(assignment=assignment, unclean=row[0])


def release(conn: Connection[Any], assignment: Assignment, lease_no: int) -> None:
    """Release lease and lock after the last batch, so that the successor starts at once.

    Before: no transaction is open. After: the lock is free even if the lease was not ours any more.
    """
    hit("release.before")
    conn.execute(query("lease", "release"), {**assignment.params, "lease_no": lease_no})
    hit("release.released")
    hit("release.after")


def break_zombie(conn: Connection[Any], partition: Partition) -> int:
    """End the sessions of an evicted member that still hold the partition's lock."""
    row = conn.execute(query("lease", "break_zombie"), partition.params).fetchone()
    return 0 if row is None else int(row[0])


def report_error(conn: Connection[Any], assignment: Assignment, error: str | None) -> None:
    """Store in the lease the error that stops the partition; None: nothing does."""
    conn.execute(query("lease", "report_error"), {**assignment.params, "error": error})
