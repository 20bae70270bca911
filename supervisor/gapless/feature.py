"""The door: the additions of a feature to rooms that know no features, as one record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from psycopg import Connection

    from gapless.consume.read.claim import SelectiveReader
    from gapless.consume.terms import Terms
    from gapless.consume.user.handler import Handler
    from gapless.lease.member import ServedTopic
    from gapless.log.known import RulesReader
    from gapless.log.promote import DueEvents
    from gapless.ops.doctor.finding import Finding, Patient
    from gapless.settings import Settings
    from gapless.settings.declared import NamedSection
    from gapless.status.section import StatusSection
    from gapless.worker.plan import HandlerSource, Plan
    from gapless.worker.spec import SequencerSpec
    from gapless.worker.unleased import Forks, Unleased

T = TypeVar("T")
Duty = Callable[["SequencerSpec"], AbstractContextManager[object]]
Workers = Callable[["Forks", "Plan"], "Unleased"]
Check = Callable[["Patient"], Iterator["Finding"]]
Option = Callable[["Connection[Any]", "ServedTopic"], object]
Switch = Callable[["Connection[Any]", str, bool], object]
Step = Callable[["Connection[Any]"], int | None]


class Declaration(Protocol):
    """A thing that a handler or the configuration declares, and a supervisor makes known first."""

    def make_known(self, conn: Connection[Any], /) -> bool:
        """Make it known unless it already is, unchanged; return whether something changed."""


class PastReader(Protocol):
    """Reads the past of groups, as far as the database has it. Raises GaplessError without one."""

    def record(self, conn: Connection[Any], /) -> float:
        """Record the present minute; return the seconds to the next one. Raises psycopg.Error."""

    def lags(self, conn: Connection[Any], /) -> Mapping[tuple[str, str], Sequence[float | None]]:
        """Return the lag of the last hour's minutes, oldest first, by group and topic."""

    def lines(self, conn: Connection[Any], since_s: float, /) -> Sequence[DataclassInstance]:
        """Return a record for each group in a topic; its property `trend` is a sparkline."""


class GroupMode(Protocol):
    """A mode of groups beside the core's, in which a worker with a lease keeps a partition's order.

    name: as a handler and the database call it.
    """

    @property
    def name(self) -> str: ...

    def require_options(self, handler: Handler, /) -> None:
        """Raise UsageError for options of a handler that cannot be in this mode."""

    def require_fit(self, handler: Handler, terms: Terms, /) -> None:
        """Raise UsageError for options, configured ones included, that do not fit this mode."""

    def options_of(self, terms: Terms, /) -> Mapping[str, int]:
        """Return the options with which the database makes the handler's group."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A command: its line in the help, and its module, by name: it is imported on first use.

    routed: verbs of it have a route, which the gateway serves.
    """

    summary: str
    module: str
    routed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOption:
    """Handlers that come and go, which an option of `gapless run` asks for.

    deed: for the sentence that says what may be run. make: takes the DSN; raises UsageError where
    they cannot be run.
    """

    option: str
    summary: str
    deed: str
    make: Callable[[Settings, str], HandlerSource]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """The additions of a feature. The list of all is in features/__init__.py, written by hand.

    A slot that would import more than this module is a function.

    commands: by name, in the order of the help. verbs: for a command that is not its own, the name
    of a module with more verbs and EXAMPLES. ops: names of modules whose `__all__` is in
    `gapless.ops`.
    sections: of a look (status, the console, metrics).
    page: the name of a package whose `page.js` is a room of the gateway's page.
    past: the reader of the record of groups, for status and the console, and the gateway, which
    also writes it where no sequencer is; at most one.
    checks: of `gapless doctor`, after the core's.
    duties: done beside the sequencer, in its process, on sessions of their own.
    workers: children of a supervisor that need no lease. source: of handlers that come and go.
    modes: of groups that they serve.
    switches: of a topic, by name, for `gapless topics alter`. step: of work that chunks wait for;
    it returns how much was done.
    settings: sections of the configuration, each a frozen dataclass (settings/declare.py).
    nested: parts of the config file with names and fields, such as `schedules`.
    options: of a handler, set for its group when a member joins it.
    reader: makes the reader of groups that do not take every event.
    publishing: makes the reader of the rules by which a topic's events are checked on publish.
    promoting: makes the promoter, which puts due events into the log. topics: its own, with
    partitions of their own. At most one feature has a reader, a publishing, a promoting, a source.
    """

    commands: Mapping[str, Listed] = field(default_factory=dict)
    verbs: Mapping[str, str] = field(default_factory=dict)
    ops: tuple[str, ...] = ()
    sections: Callable[[], Sequence[StatusSection[Any]]] = tuple
    page: str = ""
    past: Callable[[], PastReader] | None = None
    checks: Callable[[], Sequence[Check]] = tuple
    duties: Callable[[], Sequence[Duty]] = tuple
    workers: Callable[[], Sequence[Workers]] = tuple
    source: SourceOption | None = None
    switches: Mapping[str, Switch] = field(default_factory=dict)
    step: Step | None = None
    modes: Callable[[], Sequence[GroupMode]] = tuple
    settings: Callable[[], Sequence[type]] = tuple
    nested: Callable[[], Sequence[NamedSection]] = tuple
    options: Sequence[Option] = ()
    reader: Callable[[], SelectiveReader] | None = None
    publishing: Callable[[], RulesReader] | None = None
    promoting: Callable[[], DueEvents] | None = None
    topics: tuple[str, ...] = ()


listed: Callable[[], Sequence[Feature]] = tuple
"""The features of the program. gapless/__init__.py, which runs before any other module of it, hands
the list down here: so the core imports none, and no entry point can forget it."""


def given(slot: Callable[[Feature], T | None]) -> Iterator[T]:
    """Yield the contents of a slot, of each feature that fills it."""
    return (found for found in map(slot, listed()) if found is not None)


def parts(slot: Callable[[Feature], Iterable[T]]) -> Iterator[T]:
    """Yield the parts that a slot has several of, of all features."""
    return (part for each in listed() for part in slot(each))


def reader() -> SelectiveReader:
    """Return the reader for groups that do not take every event."""
    for make in given(lambda each: each.reader):
        return make()
    raise LookupError("the group has a filter, and no feature of this program reads by one")


def switch(name: str) -> Switch:
    """Return a switch of topics."""
    for found in given(lambda each: each.switches.get(name)):
        return found
    raise LookupError(f"no feature of this program switches {name} of a topic")


def mode_of(name: str) -> GroupMode:
    """Return the mode of this name, which is not the core's."""
    for each in parts(lambda each: each.modes()):
        if each.name == name:
            return each
    raise LookupError(f"no feature of this program has groups of mode {name!r}")
