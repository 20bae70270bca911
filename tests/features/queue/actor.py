"""One who takes from a queue group, in a process of its own, until it is killed or told to stop (SIGTERM).

actor.py worker|client DSN LEASE BLOCK SEED. Each effect is a row of `ledger`, without any constraint, so that what is
handled twice is recorded instead of prevented. Some handlers raise, some clients forget to answer, or answer too late.
"""

import random
import signal
import sys
import time
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).parents[2]))
from gapless.db.connect import connect
from gapless.errors import UnreachableError
from support import elsewhere
from support.queue import TAKE, Queue

VISIBILITY_S = 0.2
EFFECT = "insert into ledger (c_offset, who) select n, %s from generate_series(%s::int, %s::int) n"
CONNECTION = (psycopg.OperationalError, psycopg.InterfaceError)


def worker(conn: psycopg.Connection, queue: Queue, me: str, chance: random.Random) -> bool:
    """Take, write the effect, finish: one transaction. Every tenth raises."""
    hint = None if chance.random() < 0.2 else chance.randrange(1, 3000)
    most = chance.randint(1, queue.block)
    conn.execute("begin")
    taken = queue.take(conn, hint, most=most)
    if taken.offsets is None or chance.random() < 0.1:
        conn.execute("rollback")
        return taken.offsets is not None
    conn.execute(EFFECT, [me, *taken.offsets])
    queue.finish(conn, taken)
    if chance.random() < 0.1:
        queue.sweep(conn)
    return True


def client(conn: psycopg.Connection, queue: Queue, me: str, chance: random.Random) -> bool:
    """Take in one transaction, answer in another: in time, late, or never."""
    rows = queue.reserve(conn, chance.randint(1, 3), f"{VISIBILITY_S} s")
    if not rows:
        return False
    kind = chance.choices(["now", "late", "never", "delay"], [6, 3, 1, 1])[0]
    if kind == "late":
        time.sleep(VISIBILITY_S * chance.uniform(1.1, 5))
    receipt = rows[0][0]
    try:
        conn.execute("begin")
        if kind == "delay":
            conn.execute(
                "select gapless.release(%s, %s, %s, delay => '0.1 s')",
                [queue.group, queue.topic, receipt],
            )
        elif kind != "never":
            conn.execute(EFFECT, [me, rows[0][1], rows[-1][1]])
            queue.call(conn, "acknowledge", receipt)
        conn.execute("commit")
    except psycopg.Error as error:
        if error.sqlstate != "GL003":
            raise
        conn.execute("rollback")
    return True


def main(kind: str, dsn: str, lease: int, block: int, seed: int) -> None:
    chance = random.Random(seed)
    assert TAKE
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stop.append(number))
    act = worker if kind == "worker" else client
    while not stop:
        try:
            with connect(dsn, role="actor") as conn:
                row = conn.execute(
                    "select topic_id from gapless.lease where lease_no = %s", [lease]
                ).fetchone()
                assert row is not None
                queue = Queue(
                    group="sender",
                    topic="mails",
                    topic_id=row[0],
                    partition=0,
                    lease=lease,
                    block=block,
                )
                while not stop:
                    if not act(conn, queue, f"{kind}-{seed}", chance):
                        time.sleep(0.01)
        except (*CONNECTION, UnreachableError):
            time.sleep(0.05)  # its session was ended, perhaps while it connected


if __name__ == "__main__":
    elsewhere.configure()
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
