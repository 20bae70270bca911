"""A session as a step has it: with a table that its handler writes to, and another session that reads it."""

from typing import Any

from psycopg import Connection
from psycopg.pq import TransactionStatus


class StepSession:
    """A session of a step, with a table that its handler writes to, and another session that reads it."""

    def __init__(self, conn: Connection[Any], looker: Connection[Any]) -> None:
        self.conn = conn
        self.looker = looker

    def write(self, number: int) -> None:
        self.conn.execute("insert into public.effect values (%s)", [number])

    @property
    def effects(self) -> list[int]:
        return [row[0] for row in self.looker.execute("select n from public.effect order by n")]

    @property
    def is_idle(self) -> bool:
        return self.conn.info.transaction_status == TransactionStatus.IDLE
