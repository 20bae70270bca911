"""The door: the additions of a feature to rooms that know none, as one record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from psycopg import Connection

    from gapless.ops.doctor.finding import Finding, Patient
    from gapless.status.section import StatusSection
    from gapless.worker.spec import SequencerSpec

Duty = Callable[["SequencerSpec"], AbstractContextManager[object]]
Check = Callable[["Patient"], Iterator["Finding"]]


class Declaration(Protocol):
    """A thing that a handler or the configuration declares, and a supervisor makes known first."""

    def make_known(self, conn: Connection[Any], /) -> bool:
        """Make it known unless it is, just so; return whether something changed."""


class Inflow(Protocol):
    """Events that are stored elsewhere until they are due; asked by each turn of a sequencer."""

    @property
    def holds(self) -> bool:
        """Whether something is due that another session keeps back."""

    def is_due(self) -> bool:
        """Tell whether there may be something, while the sequencer is awake."""

    def wait_s(self, most_s: float, /) -> float:
        """Return for how long one may sleep that is woken when something is stored."""

    def rest_s(self, most_s: float, /) -> float:
        """Return for how long one may rest that is busy."""

    def promote(self, conn: Connection[Any], /) -> int:
        """Put what is due into the log; return how many events that were."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A command: its line in the help; its module, which is imported when somebody asks for it."""

    summary: str
    module: Callable[[], ModuleType]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """The additions of a feature. The list of all is in features/__init__.py, made by hand.

    A slot that would import more than this module is a function.

    commands: by name, in the order of the help. sections: of a look at all (status, the console).
    checks: of `gapless doctor`, after the core's.
    duties: done beside the sequencer, in its process, on sessions of their own.
    inflow: into the log, in the sequencer's turns; one feature has it. topics: made by it alone,
    with partitions of their own.
    """

    commands: Mapping[str, Listed] = field(default_factory=dict)
    sections: Callable[[], Sequence[StatusSection[Any]]] = tuple
    checks: Callable[[], Sequence[Check]] = tuple
    duties: Callable[[], Sequence[Duty]] = tuple
    inflow: Callable[[], Inflow] | None = None
    topics: tuple[str, ...] = ()
