"""A member in the test's own process: it makes the supervisors hand partitions over, and back."""

from collections.abc import Callable
from typing import Any

from psycopg import Connection
from psycopg.errors import LockNotAvailable

from chaos.app import make_handler
from chaos.points.theatre import Theatre
from gapless.db.connect import connect
from gapless.db.listen import heard
from gapless.keys import Assignment
from gapless.lease import hold
from gapless.lease.member import Lease, Member
from gapless.log.topics import require_topic
from support.group import member_of
from support.turn import one_step


def visit(theatre: Theatre, meanwhile: Callable[[], None]) -> None:
    """Join, take over what is planned for it, handle, let go, and leave."""
    with connect(theatre.dsn, role="ghost") as control, connect(theatre.dsn, role="ghost") as conn:
        member = member_of(control, "g", require_topic(conn, "t"), "ghost")
        meanwhile()
        theatre.until(lambda: _mine(member), "something is planned for the ghost")
        held = [(lease, _take(theatre, conn, member, lease)) for lease in _mine(member)]
        handler = make_handler("g", "t")
        member.drain()
        heard(control)  # its own announcements
        for lease, assignment in held:
            if assignment is None:
                continue
            while one_step(conn, assignment, handler).outcome == "done":
                pass
            # Its successor is to wait for the lock, as for any owner that is still at it.
            theatre.until(lambda lease=lease: _is_ready(control, lease), "a successor is ready")
            hold.release(conn, assignment, lease.lease_no)
        member.leave()


def _is_ready(control: Connection[Any], lease: Lease) -> bool:
    return f"ready {lease.lease_no}" in heard(control)


def _mine(member: Member) -> list[Lease]:
    return [lease for lease in member.leases() if lease.target == member.member_id]


def _take(
    theatre: Theatre, conn: Connection[Any], member: Member, lease: Lease
) -> Assignment | None:
    """Take a partition as a worker does; None when it is planned for somebody else by now."""
    taken: list[Assignment] = []

    def try_it() -> bool:
        hold.announce(conn, lease.partition)
        if lease.partition not in [each.partition for each in _mine(member)]:
            return True
        if not hold.lock(conn, lease.lease_no):
            hold.break_zombie(conn, lease.partition)
            return False
        assignment = hold.take(conn, lease.partition, member.member_id)
        if assignment is None:
            hold.unlock(conn, lease.lease_no)
            return False
        taken.append(assignment)
        return True

    theatre.until(try_it, f"the ghost has {lease.partition}")
    if not taken:
        return None
    theatre.until(lambda: _install(conn, taken[0]), "its fence is in")
    return taken[0]


def _install(conn: Connection[Any], assignment: Assignment) -> bool:
    try:
        assert hold.install(conn, assignment) is not None
    except LockNotAvailable:
        return False
    return True
