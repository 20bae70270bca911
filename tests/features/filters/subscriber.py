"""A worker, or an operator, in a process of its own: python subscriber.py WHAT DSN JSON.

drive: handles what there is, and what was set aside, by the assignment it is given; each event and
subscription that its handler is told of is a row of `told`. resume: resumes a subscription.
"""

import json
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from psycopg import Connection

from gapless import ops
from gapless.consume.drive import Driver
from gapless.consume.unit import Unit
from gapless.db.connect import connect
from gapless.keys import Assignment, Partition

sys.path.insert(0, str(Path(__file__).parents[2]))
from support.turn import turn
from support.world import make_handler

PLACE = ("group_id", "topic", "topic_id", "partition_id")
TELL = "insert into told (group_id, c_offset, name) values (%s, %s, %s)"


def main(what: str, dsn: str, text: str) -> None:
    said = json.loads(text)
    with connect(dsn, role="child") as conn:
        {"drive": drive, "resume": resume}[what](conn, dsn, said)


def resume(conn: Connection[Any], dsn: str, said: dict[str, Any]) -> None:
    units = ops.resume_subscription(conn, ops.GroupPlace.parse(said["place"]), said["name"])
    sys.stdout.write(json.dumps(units))


def drive(conn: Connection[Any], dsn: str, said: dict[str, Any]) -> None:
    place = {name: said["partition"][name] for name in PLACE}
    assignment = Assignment(
        partition=Partition(**place), epoch=said["epoch"], token=UUID(said["token"])
    )

    def tell(unit: Unit, conn: Connection[Any]) -> None:
        for event in unit:
            for each in event.subscriptions:
                conn.execute(TELL, [assignment.partition.group_id, event.offset, each.name])

    def tell_outside(unit: Unit) -> None:
        with psycopg.connect(dsn, autocommit=True) as own:
            tell(unit, own)

    handler = make_handler(tell)
    if said["delivery"] == "at-least-once":
        handler = make_handler(tell_outside, delivery="at-least-once")
    driver = Driver(turn(conn, assignment, handler, batch_size=4, concurrency=1))
    while (outcome := driver.turn().outcome) != "idle" or driver.has_due():
        assert outcome != "fenced"


if __name__ == "__main__":
    main(*sys.argv[1:])
