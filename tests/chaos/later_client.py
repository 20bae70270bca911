"""A client that publishes for later and cancels some of it, until SIGTERM.

later_client.py DSN FOLDER NAME SEED. A transaction has events of one or two times over several keys. A
cancel comes at any time, of one event or of several, from two sessions at once now and then; some are held
open, some are rolled back. Now and then it says once more what the schedules are.
"""

import signal
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Thread
from uuid import uuid4

import psycopg
from psycopg import Connection

import gapless
from chaos.effects import session
from chaos.history import Begun, Cancelled, Ended, Invoke, Outcome, Waiting, Writer
from chaos.later_shop import RHYTHMS, TOPIC, add
from gapless.errors import GaplessError

KEYS = [f"k{number}" for number in range(6)]
EVENTS_MAX = 4
DELAYS_S = (0.0, 0.05, 0.3, 1.0, 4.0)
FAR_S = 7 * 24 * 3600.0  # of some: nothing but a cancel ends their wait
FAR = 0.03
HOLD_S = (0.0, 0.0, 0.0, 0.05, 0.4)
REST_S = 0.06
REMEMBERED = 60
CANCELS, REPEATS = 0.5, 0.02  # of turns
_LATER = """
select scheduled_id from gapless.publish_later(
  %s, '{}', key => %s, event_type => %s, deliver_at => %s
)
"""


class Client:
    """Publishes, and remembers what it may cancel."""

    def __init__(self, writer: Writer, name: str, chance: Random) -> None:
        self._writer = writer
        self._name = name
        self._chance = chance
        self._mine: deque[tuple[str, int]] = deque(maxlen=REMEMBERED)

    def turn(self, conn: Connection, other: Connection) -> None:
        """Publish one transaction; perhaps cancel something of what was published."""
        self.publish(conn)
        if self._mine and self._chance.random() < CANCELS:
            chosen = self._chance.sample(list(self._mine), k=min(len(self._mine), 2))
            rival = Thread(target=self._try_to_cancel, args=(other, chosen[-1:]))
            if self._chance.random() < CANCELS:
                rival.start()
            self.cancel(conn, chosen[-self._chance.randint(1, 2) :])
            if rival.is_alive():
                rival.join()
        if self._chance.random() < REPEATS:
            with conn.transaction():
                add(conn, self._chance.choice(RHYTHMS))
                time.sleep(self._chance.choice(HOLD_S))

    def publish(self, conn: Connection) -> None:
        attempt = str(uuid4())
        self._writer.write(Invoke(attempt=attempt, producer=self._name, order=attempt, events=()))
        ended: Ended = "info"
        try:
            conn.execute("begin")
            row = conn.execute("select pg_current_xact_id()::text, gapless.clock()").fetchone()
            assert row is not None
            self._writer.write(Begun(attempt=attempt, xid=row[0]))
            conn.execute(
                "insert into chaos.business (attempt, producer, order_key, events)"
                " values (%s, %s, %s, 0)",
                [attempt, self._name, attempt],
            )
            waiting = self._wait(conn, attempt, row[1])
            time.sleep(self._chance.choice(HOLD_S))
            if self._chance.random() < 0.1:
                conn.execute("rollback")
                ended = "fail"
            else:
                conn.execute("commit")
                ended = "ok"
                self._mine += waiting
        finally:
            self._writer.write(Outcome(attempt=attempt, ended=ended))

    def _wait(self, conn: Connection, attempt: str, clock: object) -> list[tuple[str, int]]:
        """Schedule the events of an attempt; return those that wait."""
        waiting: list[tuple[str, int]] = []
        times_s = self._chance.choices(DELAYS_S, k=2)
        times_s[0] = FAR_S if self._chance.random() < FAR else times_s[0]
        for number in range(self._chance.randint(1, EVENTS_MAX)):
            tag, key = f"{attempt}/{number}", self._chance.choice(KEYS)
            after_s = self._chance.choice(times_s)
            if self._chance.random() < 0.3:  # by the beginning of the transaction, not by the clock
                event = gapless.NewEvent(payload={}, key=key, event_type=tag, deliver_in=after_s)
                published = gapless.publish(conn, TOPIC, [event])
                (scheduled_id,) = published.scheduled_ids or (None,)
            else:
                due = conn.execute(
                    "select %s::timestamptz + make_interval(secs => %s)", [clock, after_s]
                ).fetchone()
                assert due is not None
                found = conn.execute(_LATER, [TOPIC, key, tag, due[0]]).fetchone()
                scheduled_id = found[0] if found else None
            self._writer.write(Waiting(attempt=attempt, tag=tag, scheduled_id=scheduled_id))
            if scheduled_id is not None:
                waiting.append((tag, scheduled_id))
        return waiting

    def _try_to_cancel(self, conn: Connection, chosen: list[tuple[str, int]]) -> None:
        with suppress(psycopg.Error, GaplessError):
            self.cancel(conn, chosen)

    def cancel(self, conn: Connection, chosen: list[tuple[str, int]]) -> None:
        """Cancel events in one transaction, or roll it back."""
        told: dict[str, bool] = {}
        ended: Ended = "info"
        try:
            conn.execute("begin")
            for tag, scheduled_id in chosen:
                told[tag] = gapless.cancel(conn, scheduled_id)
            time.sleep(self._chance.choice(HOLD_S))
            if self._chance.random() < 0.2:
                conn.execute("rollback")
                ended = "fail"
            else:
                conn.execute("commit")
                ended = "ok"
        finally:
            for tag, _ in chosen:
                self._writer.write(
                    Cancelled(client=self._name, tag=tag, told=told.get(tag), ended=ended)
                )


def main(dsn: str, folder: str, name: str, seed: str) -> None:
    """Work until told to stop; sessions that are lost are followed by others."""
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stop.append(number))
    client = Client(Writer(Path(folder), name), name, Random(f"{seed} {name}"))
    while not stop:
        with (
            suppress(psycopg.Error, GaplessError),
            session(dsn, "later") as conn,
            session(dsn, "later") as other,
        ):
            while not stop:
                client.turn(conn, other)
                time.sleep(REST_S)
        time.sleep(REST_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
