"""A worker in a process of its own: python child.py MODE DSN ASSIGNMENT-AS-JSON; prints JSON.

stream: reads the one big unit twice; refuse: and raises then; kill: dies at the unit at offset 3;
time: handles all events until it is killed, within 80 ms.
"""

import json
import os
import resource
import signal
import sys
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from psycopg import Connection

from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.policy import Policy
from gapless.db.connect import connect
from gapless.keys import Assignment, Partition

sys.path.insert(0, str(Path(__file__).parents[2]))
from support.turn import one_step, one_step_alone

PLACE = ("group_id", "topic", "topic_id", "partition_id")
INSERT = "insert into effect (group_id, c_offset, unit_first) values (%s, %s, %s)"


def main(mode: str, dsn: str, assignment_json: str) -> None:
    fields = json.loads(assignment_json)
    assignment = Assignment(
        partition=Partition(**{name: fields["partition"][name] for name in PLACE}),
        epoch=fields["epoch"],
        token=UUID(fields["token"]),
    )
    with connect(dsn, role="child") as conn:
        run = {"kill": kill, "time": until_killed}.get(mode, stream)
        sys.stdout.write(json.dumps(run(mode, conn, assignment)))


def stream(mode: str, conn: Connection[Any], assignment: Assignment) -> dict[str, object]:
    before = rss_mb()
    seen: list[int] = []

    def handle(unit: Unit, conn: Connection[Any]) -> None:
        for _ in range(2):
            expected = unit.first_offset
            for event in unit:
                assert event.offset == expected
                assert event.payload["n"] == expected
                expected += 1
            assert expected == unit.last_offset + 1
            seen.append(len(unit))
        if mode == "refuse":
            raise ValueError("refused")

    done = one_step(conn, assignment, Handler(function=handle, topic="orders"))
    return {"seen": seen, "before_mb": before, "rss_mb": rss_mb(), "dead": done.dead}


def kill(mode: str, conn: Connection[Any], assignment: Assignment) -> dict[str, object]:
    def handle(unit: Unit, conn: Connection[Any]) -> None:
        group_id = assignment.partition.group_id
        conn.execute(INSERT, [group_id, unit.first_offset, unit.first_offset])
        if unit.first_offset == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    handler = Handler(function=handle, topic="orders")
    while one_step_alone(conn, assignment, handler, policy=Policy(crashes_max=3)).outcome == "done":
        pass
    return {}


def until_killed(mode: str, conn: Connection[Any], assignment: Assignment) -> dict[str, object]:
    """Handle all events, with half a batch a claim; the alarm may ring at any time."""

    def handle(unit: Unit, conn: Connection[Any]) -> None:
        for event in unit:
            group_id = assignment.partition.group_id
            conn.execute(INSERT, [group_id, event.offset, unit.first_offset])

    handler = Handler(function=handle, topic="orders")
    one_step(conn, assignment, handler, batch_size=1)
    signal.setitimer(signal.ITIMER_REAL, Random().uniform(0.001, 0.08))
    while one_step(conn, assignment, handler, batch_size=4).outcome == "done":
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    return {}


def rss_mb() -> int:
    """Return the peak. Linux's ru_maxrss counts the parent's, too, before exec."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(peak.split()[1]) // 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
