"""Queue groups that stand before a hole."""

from psycopg import Connection

from gapless.features.queue.checks import queues
from gapless.ops.doctor.finding import Patient
from support.queue import Queue


def lose_event(conn: Connection, *names: str) -> None:
    """Delete events, and leave the segments that name them."""
    done = conn.execute(
        "delete from gapless.outbox_message_t where event_type = any (%s)", [list(names)]
    )
    assert done.rowcount == len(names)


def found(conn: Connection) -> list[tuple[str, str]]:
    """What the doctor finds: text and remedy."""
    return [
        (each.text, each.remedy)
        for each in queues(Patient(conn=conn, second=conn))
        if each.level != "ok"
    ]


def finish_rest(queue: Queue, conn: Connection) -> list[str]:
    """Take and acknowledge all that can be had."""
    names = []
    while rows := queue.reserve(conn, 4):
        names += [row[3] for row in rows]
        queue.call(conn, "acknowledge", rows[0][0])
    queue.sweep(conn)
    return sorted(names, key=lambda name: int(name[1:]))


def names(*numbers: int) -> list[str]:
    return [f"e{n}" for n in numbers]
