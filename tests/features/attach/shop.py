"""Which offset stands for a place of an old consumer, and back, in a log of several tables, partitions and topics."""

import json
from typing import Any

from psycopg import Connection

from features.attach.boxes import Boxes
from gapless.log.sequence import sequence

MORE = """
create table public.far (id bigint primary key, customer text, body jsonb);
create table public.empty (id bigint primary key, customer text, body jsonb);
create table public.slow (id bigint primary key, customer text, body jsonb);
create table public.places (group_id text, partition_id int, next_offset bigint);
create table public.places2 (name text, seen smallint);
create table public.places4 (group_id text, next_offset int);
create table public.places8 (group_id text, part bigint, seen bigint);
"""
# Statements, each a transaction, and where the sequencer runs: table, ids and the partition of each.
LOG: tuple[tuple[tuple[str, dict[int, int]], ...], ...] = (
    (("far", {100: 0}),),
    (("box", {10: 0}),),
    (("twin", {70: 0}),),
    (("box", {20: 1}), ("box", {30: 0})),
    (("box", {50: 0}), ("box", {40: 0}), ("box", {45: 0}), ("", {0: 0})),
    (("box", {70: 0, 80: 0}), ("box", {60: 1})),
    (("twin", {5: 0}), ("twin", {1000: 1})),
    (("twin", {2000: 1}), ("twin", {1500: 1})),
    (("again", {}), ("twin", {1500: 1})),
    (("far", dict.fromkeys(range(1, 31), 0)), ("far", dict.fromkeys(range(31, 61), 1))),
    (("other", {1: 0}), ("other", {2: 1})),
)  # fmt: skip
PLAIN = "insert into gapless.outbox_message_t (topic_id, key, payload, headers) values (gapless.topic_id(%s), %s, '1', %s)"


class PlacedBoxes(Boxes):
    """Box and twin in topic outbox, far in other, empty without a row; slow is not copied yet.

    Partition 0 has at its offsets 1 to 10: box 10, twin 70, box 30, 50, 40, 45, an event of no table, box 70 and 80
    in one transaction, twin 5. Partition 1 has: box 20, 60, twin 1000, 2000, and 1500 twice. Group h stands for
    the old consumer of empty.
    """

    def __init__(self, conn: Connection[Any]) -> None:
        super().__init__(conn, MORE)
        topics = {"box": "outbox", "twin": "outbox", "far": "other", "empty": "outbox"}
        with conn.transaction():
            self.numbers = {each: self.live(f"public.{each}", to) for each, to in topics.items()}
            self.numbers["slow"] = self.attach("public.slow")
            for group, topic in [("g", "outbox"), ("h", "outbox"), ("g", "other")]:
                self.run("select gapless.create_group(%s, %s)", group, topic)
            switched = "insert into gapless.attached_group values (%s, 'h', 'switched')"
            self.run(switched, self.numbers["empty"])
        keys = [
            self.value("select 'k' || n from generate_series(1, 99) n where gapless.partition_of('k' || n, 2) = %s limit 1", p)
            for p in (0, 1)
        ]  # fmt: skip
        for run in LOG:
            for table, ids in run:
                if table == "again":
                    self.run("delete from public.twin where id = 1500")
                if table in topics:
                    values = ", ".join(f"({n}, '{keys[p]}', '{n}')" for n, p in ids.items())
                    self.run(f"insert into public.{table} values {values}")
                    continue
                for n, p in ids.items():  # as if box had been attached to that, too
                    headers = (
                        json.dumps({"attached": {"table": "public.box", "id": n}})
                        if table
                        else "{}"
                    )
                    self.run(PLAIN, table or "outbox", keys[p], headers)
            while sequence(conn):
                pass

    def at(self, **offsets: int) -> None:
        """Put partitions of group old there: p0=8."""
        self.run("select set_config('gapless.seeking', pg_current_xact_id()::text, true)")
        for name, offset in offsets.items():
            self.run(
                "update gapless.consumer_offsets set next_offset = %s where group_id = 'old' and partition_id = %s"
                " and topic_id = gapless.topic_id('outbox')",
                offset, int(name[1:]),
            )  # fmt: skip
        self.run("select set_config('gapless.seeking', '', true)")


BY_PART = {
    "table": "public.places",
    "group": "group_id",
    "next": "next_offset",
    "partition": "partition_id",
}
BY_LAST = {"table": "public.places2", "group": "name", "last": "seen", "partition": None}
BY_NEXT = {"table": "public.places4", "group": "group_id", "next": "next_offset", "partition": None}
LAST_PART = {"table": "public.places8", "group": "group_id", "last": "seen", "partition": "part"}
PUT = (
    "insert into public.places values ('old', 1, 60), ('old', 0, 70), ('older', 0, 3), ('g', 7, 4);"
    "insert into public.places2 values ('old', 69), ('older', 2);"
    "insert into public.places4 values ('old', 70), ('older', 2);"
    "insert into public.places8 values ('old', 0, 69), ('old', 1, 59), ('older', 0, 2);"
)
PLACES = (
    "select concat_ws(' ', 'places', group_id, partition_id, next_offset) from public.places union all"
    " select concat_ws(' ', 'places2', name, seen) from public.places2 union all"
    " select concat_ws(' ', 'places4', group_id, next_offset) from public.places4 union all"
    " select concat_ws(' ', 'places8', group_id, part, seen) from public.places8 order by 1"
)
BEYOND = 9 * 10**18


def note(shop: PlacedBoxes, places: dict[str, Any] | None) -> int:
    """Let box have places there; return its number."""
    number = shop.numbers["box"]
    said = None if places is None else json.dumps(places)
    shop.run("update gapless.attached set places = %s where attachment_id = %s", said, number)
    shop.run(PUT)
    return number


def locked(shop: PlacedBoxes, table: str, name: str) -> list[str]:
    """The rows of a table that this transaction has locked."""
    query = f"select {name} from gapless.{table} x where x.xmax::text = pg_current_xact_id()::xid::text order by 1"
    return [line for (line,) in shop.rows(query)]
