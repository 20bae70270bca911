"""A section of a look: rows of one query of a feature, for documents, tables and people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, LiteralString, NamedTuple, TypeVar

from gapless import feature

R = TypeVar("R")
Measured = Mapping[str, Mapping[tuple[str, ...], float]]


class Rank(NamedTuple):
    """A section's place among the others: lowest number first, worst problem first."""

    document: int
    table: int = 0
    problem: int = 0


CHUNKS_IN_DOCUMENT = 85  # the core's own, between sections
UNROUTED_AS_PROBLEM = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSection(Generic[R]):
    """The rows of a query, each a record, and the ways to show them.

    query: its stage and name. key: in documents. document: if not a list of all their fields.
    head, cells: a table of `gapless status`. numbers: its columns that are aligned to the right.
    problems: those that a person should look at. metrics: the values of each metric, by labels.
    """

    record: type[R]
    query: tuple[LiteralString, LiteralString]
    key: str
    rank: Rank
    document: Callable[[Sequence[R]], object] | None = None
    head: tuple[str, ...] = ()
    numbers: frozenset[str] = frozenset()
    cells: Callable[[R], Sequence[object]] | None = None
    problems: Callable[[Sequence[R]], Iterator[str]] | None = None
    metrics: Callable[[Sequence[R]], Measured] | None = None


@cache
def sections() -> tuple[StatusSection[Any], ...]:
    """Return the sections of all features."""
    return tuple(feature.parts(lambda each: each.sections()))
