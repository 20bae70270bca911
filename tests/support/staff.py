"""Twins in which every ordered group has a client that owns all partitions and has them all in hand."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psycopg import Connection

from gapless.db.connect import connect
from support.twins import GROUPS, TOPICS, Changes, Twins

PLACES = [(group, topic) for group in GROUPS for topic in TOPICS]
HERE = ("billing", "orders")
NOBODY = "00000000-0000-4000-8000-00000000dead"
STAYS = "set local idle_in_transaction_session_timeout = 0"
# This time has passed, and was renewed since the server began, whatever the server's age.
LATE = (
    "update gapless.member set ttl = '1 ms', expires_at = clock_timestamp() - interval '300 ms'"
    " where member_id = %s"
)
MEMBER = """
insert into gapless.member (member_id, kind, token_digest, name, ttl, expires_at, backend_pid, sessions)
values (%s, 'client', 'x', %s, '1 h', clock_timestamp() + interval '1 h', 0, 0)
"""
# With their events, as set_aside() makes them; the columns that a test names are then overwritten.
LETTERS = """
select gapless.set_aside(c.group_id, c.topic_id, c.partition_id, %(first)s, array(
  select s.message_ids[n - s.base_offset + 1] from generate_series(%(first)s::int, %(last)s) n
  join gapless.log_segment s on s.topic_id = c.topic_id and s.partition_id = c.partition_id
    and n between s.base_offset and s.last_offset
  order by n
), 'waiting', 'why', 'why', _attempts => 2)
from gapless.consumer_offsets c
join gapless.consumer_group g using (group_id, topic_id)
where g.mode = 'ordered' and ({where})
"""


class Staff:
    """Members, tokens and epochs, the same in all places; each place has a fence of its own."""

    def __init__(self, twins: Twins) -> None:
        self.twins, self.conn = twins, twins.conn
        self.tokens: dict[tuple[str, str], str] = {}
        self.ids: dict[tuple[str, str], str] = {}
        join = "select token, member_id::text from gapless.join(%s, %s, '1 h', %s)"
        for place in PLACES:
            (row,) = self.conn.execute(join, [*place, " of ".join(place)]).fetchall()
            self.tokens[place], self.ids[place] = row
        for token in self.tokens.values():
            self.conn.execute("select from gapless.poll(%s, 1000)", [token])
        self.token, self.me = self.tokens[HERE], self.ids[HERE]
        self.topic = twins.topic_ids["orders"]
        self.fences: list[str] = [
            str(self.twins.value(f"select token from gapless.lease where {self.here(partition)}"))
            for partition in range(3)
        ]

    def begin(self) -> None:
        """Keep passing time from renewing deadlines and ending transactions."""
        self.conn.execute(STAYS)
        self.conn.execute(
            "update gapless.member"
            " set expires_at = clock_timestamp() + ttl, polled_ts = clock_timestamp()"
        )

    def here(self, partition: int = 1) -> str:
        return self.twins.here(partition=partition)

    def run(self, text: str, params: Any = None) -> None:
        """Run a test's statement, with the names of the place put in."""
        words = {
            "here": self.here(), "me": f"'{self.me}'", "topic": self.topic, "other": f"'{NOBODY}'",
            "group": f"group_id = 'billing' and topic_id = {self.topic}",
        }  # fmt: skip
        self.conn.execute(text.format(**words), params)

    def rows(self, text: str, params: Any = None) -> list[Any]:
        return self.conn.execute(text, params).fetchall()

    def call(self, what: str, params: Any = None) -> tuple[list[Any], Changes]:
        """Return the rows of a query, and its changes."""
        self.conn.execute("drop table if exists pg_temp.answer")
        changed = self.twins.changes(f"create temp table answer on commit drop as {what}", params)
        return self.rows("select * from pg_temp.answer"), changed

    def letters(self, first: int, last: int, where: str = "true", **values: Any) -> None:
        """Set a unit aside in these places of ordered groups."""
        self.conn.execute(LETTERS.format(where=where), {"first": first, "last": last})
        for column, value in values.items():
            self.conn.execute(
                f"update gapless.dead_letter set {column} = %s where first_offset = %s and ({where})",
                [value, first],
            )

    def hire(self, member_id: str, place: tuple[str, str] = HERE) -> None:
        """Make a session a client of a group, without a plan that knows it."""
        group, topic = place
        self.conn.execute(MEMBER, [member_id, f"{member_id[:8]} of {group}"])
        self.conn.execute(
            "insert into gapless.member_group (member_id, group_id, topic_id) values (%s, %s, %s)",
            [member_id, group, self.twins.topic_ids[topic]],
        )


def gone(changed: Changes, table: str) -> set[int]:
    """Remove the deleted rows of a table at this place from the changes, and return them."""
    begin = f"{table} billing orders 1 "
    rows = [name for name in changed if name.startswith(begin)]
    assert all(after is None for name in rows for _, after in changed[name].values())
    return {int(name.removeprefix(begin)) for name in rows if changed.pop(name)}


def left(changed: Changes, *names: str) -> None:
    """Remove deleted rows from the changes."""
    for name in names:
        assert all(after is None for _, after in changed.pop(name).values()), name


@contextmanager
def put_back(dsn: str, *tables: str) -> Iterator[Connection[Any]]:
    """Yield a session for changes that must be committed to be seen; restore these tables afterwards."""
    with connect(dsn, role="test") as one:
        for table in tables:
            one.execute(f"create temp table {table} as select * from gapless.{table}".encode())
        try:
            yield one
        finally:
            with one.transaction():
                one.execute("set local session_replication_role = replica")
                for table in tables:
                    one.execute(f"delete from gapless.{table}".encode())
                    one.execute(
                        f"insert into gapless.{table} overriding system value"
                        f" select * from pg_temp.{table}".encode()
                    )
