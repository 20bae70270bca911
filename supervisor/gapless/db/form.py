"""How values are adapted on their way to the server and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection
from psycopg.adapt import AdaptersMap
from psycopg.pq import Format

ADAPTERS = AdaptersMap(psycopg.adapters)  # a handler may change those of its connection


class Form(NamedTuple):
    """How rows are sent and read."""

    adapters: AdaptersMap
    format: Format


TEXT = Form(ADAPTERS, Format.TEXT)


@dataclass(frozen=True, slots=True)
class Context:
    """How values are adapted (psycopg.abc.AdaptContext)."""

    adapters: AdaptersMap
    connection: Connection[Any] | None
