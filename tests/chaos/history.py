"""What the clients of a run did: one line of JSON an event, one file a process.

A line is written by one write() to a file opened O_APPEND, so it survives kill -9 of its writer: the
kernel has it. Times are time.monotonic_ns(): one clock for all processes of a machine, deaf to
whoever sets the other one. A producer writes `Invoke` before it sends anything, `Begun` before its
first write, and `Outcome` after the answer to COMMIT, or without one. What the database knows
(effects, claims, leases, letters) is in the tables of tables.sql.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from time import monotonic_ns
from typing import Any, Literal, get_args
from uuid import uuid4

Ended = Literal["ok", "fail", "info", "already"]


def digest(text: str) -> str:
    """Return what the checker compares of a payload's JSON text (PostgreSQL's md5 of it)."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One event of an attempt, in the order of insertion.

    tag: its event_type, unique in the run (of this attempt, not of the business order).
    key: what routes it. headers: as JSON. digest: digest(payload text), "" when it does not matter.
    poison: its handlers always raise. does: what they do with it (chaos.deeds), "" nothing odd.
    undone: its savepoint was rolled back. transaction_id: the explicit one, if it has one.
    """

    tag: str
    topic: str
    key: str | None = None
    headers: str = "{}"
    host_id: str | None = None
    user_id: str | None = None
    digest: str = ""
    poison: bool = False
    does: str = ""
    undone: bool = False
    transaction_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """What is written down, and when."""

    at_ns: int = field(default_factory=monotonic_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped(Timed):
    """What a group promised to do with units that fail; one without this dead-letters them."""

    group: str
    on_failure: str = "dead-letter"
    delays_s: tuple[float, ...] = ()
    delivery: str = "exactly-once"
    mode: str = "ordered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked(Timed):
    """A link of a chain: what this group's handler is given, it publishes something for (I10).

    into: the topic that it publishes into; None: it is the last one. ways: how it publishes. What it
    publishes for a unit follows from the seed, the group and the unit (chaos.chain.plan).
    """

    group: str
    topic: str
    into: str | None
    batch_size: int
    ways: tuple[str, ...]
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoke(Timed):
    """A producer is about to publish, in one database transaction, for a business order.

    attempt: a uuid of its own for every try. order: the business key, the same for all tries.
    """

    attempt: str
    producer: str
    order: str
    events: tuple[Sent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun(Timed):
    """The attempt's transaction has this xid (pg_current_xact_id()); nothing is written yet."""

    attempt: str
    xid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inserting(Timed):
    """The events of an attempt from this one on are inserted now, not when it began (I4)."""

    attempt: str
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Timed):
    """How an attempt ended.

    ok: COMMIT was answered. fail: COMMIT was never sent, or the server refused it. info: it was
    sent, and no answer came. already: the business key showed that an earlier attempt committed.
    """

    attempt: str
    ended: Ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Handling(Timed):
    """A handler begins or ends a unit; for "a fault hit a worker inside its handler".

    does: the deeds of its events, in their order. how, at the end: ok; raised, retry, dead, skip
    (what the handler meant to raise); trouble: anything else, which is the environment's.
    """

    group: str
    topic: str
    partition: int
    first_offset: int
    phase: Literal["begin", "end"]
    attempt: int = 1
    does: str = ""
    how: str = ""
    pid: int = field(default_factory=os.getpid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(Timed):
    """A fault begins or ends. crash: the server loses what was not on disk (xids come again).

    lost: a crash that takes its time has taken all that it takes.
    """

    kind: str
    target: str
    phase: Literal["begin", "lost", "end"] = "begin"
    crash: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(Timed):
    """Anything else worth a line: a failpoint that was hit, a step of a scenario."""

    what: str
    detail: str = ""
    pid: int = field(default_factory=os.getpid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Timed):
    """What a person asked for, one of several at once: and what came of each unit, by its place."""

    verb: str
    together: str
    units: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Timed):
    """What a SQL client said of a receipt. how: acknowledge, release, reject, extend or forget.

    ended: ok; lost (GL003, rolled back); info: no answer came. late: it said so after the deadline.
    """

    client: str
    group: str
    receipt: str
    partition: int
    offsets: tuple[int, ...]
    how: str
    ended: Literal["ok", "lost", "info"]
    late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting(Timed):
    """An attempt published one event for later; scheduled_id None: its time had come, so at once."""

    attempt: str
    tag: str
    scheduled_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled(Timed):
    """What a client was told when it cancelled an event for later; None: it got no answer.

    ended: of the transaction it did so in: ok; fail (rolled back); info: no answer to COMMIT came.
    """

    client: str
    tag: str
    told: bool | None
    ended: Ended


Record = (
    Grouped
    | Linked
    | Invoke
    | Begun
    | Inserting
    | Outcome
    | Handling
    | Fault
    | Asked
    | Answered
    | Waiting
    | Cancelled
    | Note
)
_KINDS: dict[str, type[Any]] = {kind.__name__.lower(): kind for kind in get_args(Record)}


class Writer:
    """Appends records to the file of this process; after a fork the child has one of its own."""

    def __init__(self, folder: Path, role: str) -> None:
        self._folder = folder
        self._role = role
        self._pid = 0
        self._file = -1

    def write(self, record: Record) -> None:
        """Append one record; when this returns, kill -9 cannot take it away."""
        if self._pid != os.getpid():
            self._open()
        line = {"record": type(record).__name__.lower(), **asdict(record)}
        os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def _open(self) -> None:
        pid = os.getpid()
        path = self._folder / f"{self._role}-{pid}-{uuid4().hex[:8]}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._pid = pid  # last: another thread must not write before


def read(folder: Path) -> list[Record]:
    """Return all records of a run in the order of their times.

    A last line without its end was being written when its writer died: it did not happen yet.
    """
    records = [record for path in sorted(folder.glob("*.jsonl")) for record in _lines(path)]
    return sorted(records, key=lambda record: record.at_ns)


def select(records: Iterable[Record], kind: type[Any]) -> list[Any]:
    """Return the records of one kind."""
    return [record for record in records if isinstance(record, kind)]


def _lines(path: Path) -> Iterator[Record]:
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield _parse(json.loads(line))


def _parse(line: dict[str, Any]) -> Record:
    kind = _KINDS[line.pop("record")]
    if kind is Invoke:
        known = {each.name for each in fields(Sent)}
        line["events"] = tuple(
            Sent(**{name: value for name, value in event.items() if name in known})
            for event in line["events"]
        )
    for name in {"delays_s", "units", "ways", "offsets"} & line.keys():
        line[name] = tuple(tuple(each) if isinstance(each, list) else each for each in line[name])
    record: Record = kind(**line)
    return record
