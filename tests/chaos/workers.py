"""Workers of some groups, whose turns are taken by hand, in the caller's process."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from psycopg import Connection

from chaos.history import Writer
from chaos.shop import Shop
from gapless.consume.drive import Driver
from gapless.consume.user.handler import Handler
from gapless.db.connect import connect
from gapless.log.topics import Topic
from support.group import member_of, own
from support.turn import turn


class Workers:
    """Where a play by hand is: a database, a history, the handlers' shop and the sessions."""

    def __init__(self, dsn: str, conn: Connection[Any], folder: Path, shop: Shop) -> None:
        self.dsn, self.conn = dsn, conn
        self.writer = Writer(folder, "driver")
        self.shop = shop
        self.sessions: list[Connection[Any]] = []

    def own_all(self, topic: Topic, handler: Handler, **said: Any) -> Iterator[Driver]:
        """Own all partitions of a topic for the handler's group; said: its terms, if others."""
        group = handler.group or ""
        member = member_of(self.session(), group, topic, group)
        member.sync()
        for lease in member.leases():
            conn = self.session()
            assignment = own(conn, member, lease)
            yield Driver(turn(conn, assignment, handler, **said))

    def session(self, role: str = "worker") -> Connection[Any]:
        self.sessions.append(connect(self.dsn, role=role))
        return self.sessions[-1]

    def close(self) -> None:
        self.shop.desk.close()
        for session in self.sessions:
            session.close()
