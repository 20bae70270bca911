"""A run that is short and sound, for the checker."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg import Connection

from chaos.history import Record


@dataclass
class Run:
    conn: Connection[Any]
    folder: Path
    records: list[Record]
