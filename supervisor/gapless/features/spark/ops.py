"""Pipelines: those of a file, and their removal. Spark is not needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless.features.spark.pipeline.document import load_pipelines
from gapless.features.spark.pipeline.elsewhere import drop_staged
from gapless.features.spark.pipeline.position import holds, list_pipelines, remove
from gapless.ops.text import quantity

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["RemovedPipeline", "remove_pipeline"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedPipeline:
    """The consequences of removing a pipeline. unread: events that retention keeps for it.

    target: None if it never ran. archive_of: topics that wait for it by their retention.
    removed: it is gone; False: nothing was changed. left_over: a staging table that its owner may
    drop.
    """

    pipeline: str
    target: str | None
    topics: Sequence[str]
    unread: int
    archive_of: Sequence[str]
    removed: bool
    left_over: str | None = None

    def __str__(self) -> str:
        topics = ", ".join(self.topics) or "no topic"
        unread = quantity(self.unread, "event")
        return f"pipeline {self.pipeline} of {topics}, which has {unread} yet to read"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredPipeline:
    """A pipeline in its file: topics separated by commas; transform: a name, sql, or -."""

    pipeline: str
    source: str
    target: str
    transform: str


def declared_pipelines(file: Path) -> list[DeclaredPipeline]:
    """Return the pipelines in a file. Raises ConfigError for one that cannot be read."""
    return [
        DeclaredPipeline(
            pipeline=each.name,
            source=", ".join(each.topics),
            target=str(each.target),
            transform=each.transform or ("sql" if each.sql else "-"),
        )
        for each in load_pipelines(file).values()
    ]


def remove_pipeline(conn: Connection[Any], name: str, *, dry_run: bool = False) -> RemovedPipeline:
    """Forget a pipeline: retention no longer waits for it; its output stays.

    Before: `conn` is in autocommit. dry_run: only return the consequences. Raises UsageError for an
    unknown pipeline, or while it runs.
    """
    held = holds(conn, name)
    standing = next((each for each in list_pipelines(conn) if each.name == name), None)
    left_over = None
    if not dry_run:
        remove(conn, name)
        left_over = drop_staged(conn, name, standing.target) if standing else None
    return RemovedPipeline(
        pipeline=name,
        target=standing.target if standing else None,
        topics=[each.topic for each in held],
        unread=sum(each.events for each in held),
        archive_of=[each.topic for each in held if each.is_archive],
        removed=not dry_run,
        left_over=left_over or None,
    )
