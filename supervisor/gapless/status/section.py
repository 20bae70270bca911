"""A section of a look: rows of one query of a feature, for documents and people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, LiteralString, NamedTuple, TypeVar

from gapless import feature

R = TypeVar("R")
Measured = Mapping[str, Mapping[tuple[str, ...], float]]


class Rank(NamedTuple):
    """A section's place among the others: lowest number first, worst problem first."""

    document: int
    problem: int = 0


CHUNKS_IN_DOCUMENT = 85  # the core's own, between sections
UNROUTED_AS_PROBLEM = 15


@dataclass(frozen=True, slots=True)
class StatusProblem:
    """A problem that a person should act on, and its remedy.

    is_bad: events wait until then. page: the page of the gateway that shows more, and its names:
    groups (group, topic), dead (group, state), members, retention or later. since_s: its age; None:
    unknown. command: the one of the remedy, as it is typed; "": none.
    """

    problem: str
    remedy: str
    is_bad: bool = field(default=False, kw_only=True)
    page: tuple[str, ...] = field(default=(), kw_only=True)
    since_s: float | None = field(default=None, kw_only=True)
    command: str = field(default="", kw_only=True)

    def __str__(self) -> str:
        return f"{self.problem}: {self.remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSection(Generic[R]):
    """The rows of a query, each a record, and the ways to show them.

    query: its stage and name. key: in documents. document: if not a list of all their fields.
    problems: those that a person should look at. metrics: the values of each metric, by labels.
    serves: by group, the server at work on it (None: there is none) and the command that starts
    one, for groups whose partitions no supervisor leases.
    """

    record: type[R]
    query: tuple[LiteralString, LiteralString]
    key: str
    rank: Rank
    document: Callable[[Sequence[R]], object] | None = None
    problems: Callable[[Sequence[R]], Iterable[StatusProblem]] | None = None
    metrics: Callable[[Sequence[R]], Measured] | None = None
    serves: Callable[[Sequence[R]], Mapping[str, tuple[str | None, str]]] | None = None


@cache
def sections() -> tuple[StatusSection[Any], ...]:
    """Return the sections of all features."""
    return tuple(feature.parts(lambda each: each.sections()))
