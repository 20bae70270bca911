"""The door: the additions of a feature to rooms that know no features, as one record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from psycopg import Connection

    from gapless.consume.read.claim import SelectiveReader
    from gapless.lease.member import ServedTopic
    from gapless.log.known import RulesReader
    from gapless.log.promote import DueEvents
    from gapless.ops.doctor.finding import Finding, Patient
    from gapless.status.section import StatusSection
    from gapless.worker.plan import Plan
    from gapless.worker.spec import SequencerSpec
    from gapless.worker.unleased import Forks, Unleased

Duty = Callable[["SequencerSpec"], AbstractContextManager[object]]
Workers = Callable[["Forks", "Plan"], "Unleased"]
Check = Callable[["Patient"], Iterator["Finding"]]
Option = Callable[["Connection[Any]", "ServedTopic"], object]


class Declaration(Protocol):
    """A thing that a handler or the configuration declares, and a supervisor makes known first."""

    def make_known(self, conn: Connection[Any], /) -> bool:
        """Make it known unless it already is, unchanged; return whether something changed."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A command: its line in the help, and its module, which is imported on first use."""

    summary: str
    module: Callable[[], ModuleType]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """The additions of a feature. The list of all is in features/__init__.py, written by hand.

    A slot that would import more than this module is a function.

    commands: by name, in the order of the help. sections: of a look (status, the console).
    checks: of `gapless doctor`, after the core's.
    duties: done beside the sequencer, in its process, on sessions of their own.
    workers: children of a supervisor that need no lease.
    options: of a handler, set for its group when a member joins it.
    reader: makes the reader of groups that do not take every event.
    publishing: makes the reader of the rules by which a topic's events are checked on publish.
    promoting: makes the promoter, which puts due events into the log. topics: its own, with
    partitions of their own. At most one feature has a reader, a publishing, a promoting.
    """

    commands: Mapping[str, Listed] = field(default_factory=dict)
    sections: Callable[[], Sequence[StatusSection[Any]]] = tuple
    checks: Callable[[], Sequence[Check]] = tuple
    duties: Callable[[], Sequence[Duty]] = tuple
    workers: Callable[[], Sequence[Workers]] = tuple
    options: Sequence[Option] = ()
    reader: Callable[[], SelectiveReader] | None = None
    publishing: Callable[[], RulesReader] | None = None
    promoting: Callable[[], DueEvents] | None = None
    topics: tuple[str, ...] = ()


listed: Callable[[], Sequence[Feature]] = tuple
"""The features of the program. gapless/__init__.py, which runs before any other module of it, hands
the list down here: so the core imports none, and no entry point can forget it."""


def options() -> Iterable[Option]:
    """Return the options to set for a group, in addition to those of the core."""
    return (option for each in listed() for option in each.options)


def reader() -> SelectiveReader:
    """Return the reader for groups that do not take every event."""
    for each in listed():
        if each.reader is not None:
            return each.reader()
    raise LookupError("the group has a filter, and no feature of this program reads by one")
