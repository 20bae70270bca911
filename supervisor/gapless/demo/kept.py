"""A demo that was run with --keep, and the commands to try on it.

The demo's own server has the kept demo as its database `gapless`, so its address is always the
same, also after the server was stopped and started again.
"""

from __future__ import annotations

import secrets
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import SQL, Identifier
from rich.console import Console

from gapless.db.connect import connect
from gapless.db.queries import query
from gapless.features.server.ops import url_of
from gapless.features.server.postgres.cluster import NAME
from gapless.ops.place import spell

OWN_SERVER = "demo"
_HANDLERS = "gapless.demo.handlers"
_COLUMN = 56  # where the explanation of a command begins


def database_of(server_dsn: str, demo_dsn: str) -> str:
    """Make the demo's database that of its own server; return its DSN.

    An earlier kept demo is dropped, even while people look at it. No session may use this demo's.
    """
    made = str(conninfo_to_dict(demo_dsn)["dbname"])
    before = f"{NAME}_before_{secrets.token_hex(3)}"
    with connect(make_conninfo(server_dsn, dbname="postgres"), role="demo") as conn:
        try:
            with conn.transaction():  # both or neither: the server is never without its database
                conn.execute(query("demo", "end_sessions"), {"database": NAME})
                _rename(conn, NAME, before)
                _rename(conn, made, NAME)
        except psycopg.errors.ObjectInUse:
            return demo_dsn  # a session came back at once: the database keeps its first name
        conn.execute(SQL("drop database {} with (force)").format(Identifier(before)))
    return make_conninfo(server_dsn, dbname=NAME)


def tell_next(screen: Console, conn: Connection[Any], dsn: str, *, own_server: bool) -> None:
    """Print the commands to try on a demo that was kept."""
    steps = [
        (f"export GAPLESS_DSN='{url_of(dsn)}'", ""),
        ("gapless tail flights -n 5", "look at the events"),
        (f"gapless run {_HANDLERS} &> run.log &", "a supervisor; the same again: another one"),
        ("kill -9 $!", "break it: gapless status shows the supervisor that continues"),
    ]
    row = conn.execute(query("demo", "newest_letter")).fetchone()
    if row is not None:
        place = spell(*row)
        steps += [
            (
                f"gapless dlq show {place}",
                "refused events, and the reason; gapless dlq lists all",
            ),
            (
                f"gapless dlq redrive {place}",
                "handled again; it fails until it is mended",
            ),
        ]
    if own_server:
        steps.append(
            (f"gapless server stop --name {OWN_SERVER}", "the data stay for the next start")
        )
    screen.print("\nKept for you. Next:")
    for command, what in steps:
        text = f"  {command:<{_COLUMN}}  # {what}" if what else f"  {command}"
        screen.print(text, highlight=False, soft_wrap=True, markup=False)


def tell_of_keeping(screen: Console) -> None:
    """Print how to keep a demo."""
    screen.print("Next: gapless demo --keep leaves it all there, to be looked at and broken.")


def _rename(conn: Connection[Any], old: str, new: str) -> None:
    statement = SQL("alter database {} rename to {}")
    conn.execute(statement.format(Identifier(old), Identifier(new)))
