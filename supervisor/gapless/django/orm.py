"""The ORM within a handler's transaction: its writes commit with the offset (I6)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections, transaction
from psycopg import Connection
from psycopg.adapt import AdaptersMap

from gapless.db.twin import Within, twin
from gapless.django.database import alias
from gapless.errors import UsageError

_SET_TIME_ZONE = "select set_config('TimeZone', %s, true)"


@contextmanager
def on(conn: Connection[Any], using: str | None = None) -> Iterator[None]:
    """Have the models of a database work within the transaction that is open on `conn`.

    conn: the handler's connection. using: the alias; default the one that has the log. Other
    databases are not affected. The block is an atomic() of Django: an exception undoes its writes;
    nothing in it ends the transaction of the step.
    Raises UsageError for another kind of connection, under psycopg2, and, at the end of the block,
    for callbacks of transaction.on_commit(): nothing would call them; publish an event instead.
    """
    name = using or alias()
    ours = connections[name]
    params = _params_of(ours, conn)
    with twin(conn, Within) as session, _time_zone(conn, ours.timezone_name):
        # Django's adapters: JSON as text, times in its time zone, parameters bound by the client.
        session._adapters = AdaptersMap(params["context"])  # noqa: SLF001
        session.cursor_factory = params["cursor_factory"]
        lent = ours.copy()
        lent.connection = session
        lent.autocommit = False
        lent.in_atomic_block = True
        connections[name] = lent
        try:
            with transaction.atomic(using=name):
                yield
            if lent.run_on_commit:
                raise UsageError("transaction.on_commit() in a handler: publish an event instead")
        finally:
            connections[name] = ours


def _params_of(ours: Any, conn: object) -> dict[str, Any]:
    if not isinstance(conn, Connection):
        raise UsageError(
            f"on() takes the connection of a plain handler (def), not {type(conn).__name__}"
        )
    params: dict[str, Any] = ours.get_connection_params() if ours.vendor == "postgresql" else {}
    if "context" not in params:
        raise UsageError(f"Django's connection {ours.alias!r} does not use psycopg 3")
    return params


@contextmanager
def _time_zone(conn: Connection[Any], name: str) -> Iterator[None]:
    """Give the session Django's time zone: Django reads times as if they were in that one."""
    before = conn.info.parameter_status("TimeZone")
    if before == name:
        yield
        return
    conn.execute(_SET_TIME_ZONE, (name,))
    yield
    conn.execute(_SET_TIME_ZONE, (before,))  # after an error the step rolls all of it back
