"""How values are adapted on their way to the server and back, and what is kept of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection
from psycopg import abc as protocols
from psycopg.adapt import AdaptersMap, Transformer
from psycopg.pq import Format

ADAPTERS = AdaptersMap(psycopg.adapters)  # a handler may change those of its connection


class Form(NamedTuple):
    """How rows are sent and read."""

    adapters: AdaptersMap
    format: Format


TEXT = Form(ADAPTERS, Format.TEXT)


@dataclass(frozen=True, slots=True)
class _Context:
    """How values are adapted (psycopg.abc.AdaptContext)."""

    adapters: AdaptersMap
    connection: Connection[Any] | None


def transformer(
    conn: Connection[Any], kept: dict[AdaptersMap, protocols.Transformer], form: Form
) -> protocols.Transformer:
    """Return what adapts values; to make its loaders takes a quarter of the time to take an event.

    kept: of this session, those of binary forms, which depend on nothing that it is set to. They
    MUST NOT know the connection, or it would live as long as they do.
    """
    encoding = conn.pgconn.parameter_status(b"client_encoding")
    if form.format != Format.BINARY or encoding != b"UTF8":
        return Transformer(_Context(form.adapters, conn))
    found = kept.get(form.adapters)
    if found is None:
        found = kept[form.adapters] = Transformer(_Context(form.adapters, None))
    return found
