"""The door: the additions of a feature to rooms that know none, as one record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg import Connection

    from gapless.consume.read.claim import Reader
    from gapless.lease.member import Subscription
    from gapless.ops.doctor.finding import Finding, Patient
    from gapless.worker.spec import SequencerSpec

Duty = Callable[["SequencerSpec"], AbstractContextManager[object]]
Check = Callable[["Patient"], Iterator["Finding"]]
Option = Callable[["Connection[Any]", "Subscription"], object]


@dataclass(frozen=True, slots=True)
class Listed:
    """A command: its line in the help; its module, which is imported when somebody asks for it."""

    summary: str
    module: Callable[[], ModuleType]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """The additions of a feature. The list of all is in features/__init__.py, made by hand.

    A slot that would import more than this module is a function.

    commands: by name, in the order of the help. checks: of `gapless doctor`, after the core's.
    duties: done beside the sequencer, in its process, on sessions of their own.
    options: what a handler says of its group, set when a member joins that.
    reader: how groups are read that do not take every event; of one feature at most.
    """

    commands: Mapping[str, Listed] = field(default_factory=dict)
    checks: Callable[[], Sequence[Check]] = tuple
    duties: Callable[[], Sequence[Duty]] = tuple
    options: Sequence[Option] = ()
    reader: Callable[[], Reader] | None = None


listed: Callable[[], Sequence[Feature]] = tuple
"""The list, for the core, which must not import it: `gapless` sets it, whatever is imported."""


def options() -> Iterable[Option]:
    """Return what is to be set for a group beside what the core knows."""
    return (option for each in listed() for option in each.options)


def reader() -> Reader:
    """Return what reads for groups that do not take every event."""
    return next(each.reader() for each in listed() if each.reader is not None)
