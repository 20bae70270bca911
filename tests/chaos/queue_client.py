"""A SQL client of the queue groups: takes, and answers in time, too late, or never, until SIGTERM.

queue_client.py DSN FOLDER NAME SEED. What it does with an event commits with its acknowledgement.
"""

import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import psycopg
from psycopg import Connection

from chaos.effects import session
from chaos.history import Answered, Writer
from chaos.queue_shop import QUEUES, TOPIC, WRITE

VISIBILITY_S = 0.5
LATE_S = (0.6, 1.5)
WAYS = {"acknowledge": 12, "late": 4, "release": 2, "extend": 2, "forget": 2, "reject": 1}
REST_S = 0.05
EVENTS_MAX = 5
LOST = "GL003"


class Client:
    """One session's work. name: who it is in the rows that it writes."""

    def __init__(self, writer: Writer, name: str, chance: Random, topic: str = TOPIC) -> None:
        self._writer = writer
        self._name = name
        self._chance = chance
        self._topic = topic

    def turn(self, conn: Connection[Any], group: str, way: str | None = None) -> bool:
        """Take events of a group, and answer for each receipt; False: there were none."""
        most = self._chance.randint(1, EVENTS_MAX)
        rows = conn.execute(
            "select receipt, partition_id, c_offset, event_type"
            " from gapless.take(%s, %s, %s, make_interval(secs => %s))",
            [group, self._topic, most, VISIBILITY_S],
        ).fetchall()
        for receipt in dict.fromkeys(row[0] for row in rows):
            how = way or self._chance.choices([*WAYS], [*WAYS.values()])[0]
            self._answer(conn, group, how, [row for row in rows if row[0] == receipt])
        return bool(rows)

    def _answer(self, conn: Connection[Any], group: str, way: str, rows: Sequence[Any]) -> None:
        late = way == "late"
        how = "acknowledge" if late else way
        if late:
            time.sleep(self._chance.uniform(*LATE_S))
        ended: Any = "info"
        try:
            with conn.transaction():
                self._say(conn, group, how, rows)
            ended = "ok"
        except psycopg.Error as error:
            if error.sqlstate != LOST:
                raise
            ended = "lost"
        finally:
            self._writer.write(
                Answered(
                    client=self._name,
                    group=group,
                    receipt=rows[0][0],
                    partition=rows[0][1],
                    offsets=tuple(row[2] for row in rows),
                    how=how,
                    ended=ended,
                    late=late,
                )
            )

    def _say(self, conn: Connection[Any], group: str, how: str, rows: Sequence[Any]) -> None:
        receipt = [group, self._topic, rows[0][0]]
        if how == "release":
            conn.execute("select gapless.release(%s, %s, %s, delay => '0.2 s')", receipt)
        elif how == "reject":
            conn.execute("select gapless.reject(%s, %s, %s, 'a client said so')", receipt)
        elif how != "forget":
            if how == "extend":
                conn.execute("select gapless.extend(%s, %s, %s, '2 s')", receipt)
            for _, partition, offset, tag in rows:
                place = [group, self._topic, partition, offset]
                conn.execute(WRITE, [*place, tag, self._name, rows[0][0], False])
            conn.execute("select gapless.acknowledge(%s, %s, %s)", receipt)


def main(dsn: str, folder: str, name: str, seed: int) -> None:
    """Work until told to stop; a session that is lost is followed by another one."""
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stop.append(number))
    chance = Random(seed)
    client = Client(Writer(Path(folder), name), name, chance)
    while not stop:
        with (
            suppress(psycopg.OperationalError, psycopg.InterfaceError),
            session(dsn, "client") as conn,
        ):
            while not stop:
                client.turn(conn, chance.choice(QUEUES).group)
                time.sleep(REST_S)
        time.sleep(REST_S)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
