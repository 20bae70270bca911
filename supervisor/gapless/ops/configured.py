"""Install the schema as a configuration wants it: with its topic, its chunks and its schedules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.errors import InvalidSchemaName, UndefinedTable

from gapless.db.schema import schema, schema_words
from gapless.log.topics import Topic, find_topic
from gapless.ops.install import Installed, install_schema
from gapless.ops.text import quantity
from gapless.ops.topics import ensure_as_configured

if TYPE_CHECKING:
    from psycopg import Connection

    from gapless.settings import Loaded

__all__ = ["InstalledAsConfigured", "install_as_configured"]

_ASKS = ("topic", "totalPartitions")
_CHUNKS = {"chunk_events": "chunkEvents", "chunks_ahead": "chunksAhead"}


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledAsConfigured:
    """The result of install_as_configured().

    topic: the one of the configuration, None if it asks for none; is_new: it was made just now.
    schedules: those that were added or changed.
    """

    database: str
    installed: Installed
    topic: Topic | None
    is_new: bool
    schedules: Sequence[str]

    def record(self) -> dict[str, object]:
        """Return the object that `gapless init --json` prints."""
        changes = self.installed.changes
        return {
            "database": self.database,
            "changed": bool(self._lines()),
            "migrations": [change.name for change in changes if change.kind == "migrations"],
            "created_topic": self.topic.name if self.topic and self.is_new else None,
        }

    def __str__(self) -> str:
        there = "" if self.topic is None else f", there is {_words(self.topic)}"
        what = f'the {schema_words()} in database "{self.database}" is up to date'
        return "\n".join(self._lines()) or f"nothing to do: {what}{there}"

    def _lines(self) -> list[str]:
        done, installed = [], self.installed
        if installed.changes:
            kinds = Counter(change.kind for change in installed.changes)
            parts = ["baseline"] if kinds["tables"] else []
            parts += [
                quantity(kinds[kind], kind.removesuffix("s"))
                for kind in ("migrations", "functions", "views")
                if kinds[kind]
            ]
            where = f'in database "{self.database}", schema {schema()}'
            done.append(f"installed {where}: {', '.join([*parts, 'roles'])}")
        if installed.chunks_made:
            made = quantity(installed.chunks_made, "chunk")
            done.append(f"made {made} of {installed.chunk_events:,} events")
        if self.topic is not None and self.is_new:
            done.append(f"created {_words(self.topic)}")
        return done + [f"schedule {name} is as the configuration says" for name in self.schedules]


def install_as_configured(
    conn: Connection[Any],
    loaded: Loaded,
    *,
    tell: Callable[[int, int], None] = lambda *_: None,
) -> InstalledAsConfigured:
    """Install or upgrade the schema, then make the parts that are configured; repeat freely.

    These are its topic, if `topic` or `totalPartitions` is set, its schedules, and chunks of
    the size that is set. Before: `conn` is in autocommit, of the role that owns the schema
    or, before there is one, the database. tell: is called with the number of
    files applied so far, and of all.
    Raises UsageError, before anything is changed, for a topic that has another number of
    partitions; SchemaError for a database of a newer gapless.
    """
    asks = any(loaded.sources[key] != "default" for key in _ASKS)
    if asks:
        _refuse_mismatch(conn, loaded)
    said = {
        name: getattr(loaded.settings, name)
        for name, key in _CHUNKS.items()
        if loaded.sources[key] != "default"
    }
    installed = install_schema(conn, **said, tell=tell)
    topic, is_new = None, False
    if asks:
        topic, is_new = ensure_as_configured(conn, loaded.settings.topic, loaded)
    declared = [(each.name, each.made()) for each in loaded.declared]
    changed = [name for name, made in declared if made.make_known(conn)]
    return InstalledAsConfigured(
        database=conn.info.dbname,
        installed=installed,
        topic=topic,
        is_new=is_new,
        schedules=changed,
    )


def _refuse_mismatch(conn: Connection[Any], loaded: Loaded) -> None:
    """Refuse another number of partitions before anything is changed, if the topic exists."""
    try:
        there = find_topic(conn, loaded.settings.topic)
    except (UndefinedTable, InvalidSchemaName):
        return
    if there is not None:
        ensure_as_configured(conn, there.name, loaded)


def _words(topic: Topic) -> str:
    return f"topic {topic.name} with {quantity(topic.partitions, 'partition')}"
