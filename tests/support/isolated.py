"""The session and the log of isolate() in tests: a test chooses the claims, calls and answers of the database."""

from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest

import gapless
from gapless.consume import isolate as module
from gapless.consume.aside.parking import Parking
from gapless.consume.job import Job
from gapless.consume.read.backlog import Backlog
from gapless.consume.read.claim import Claim, Wanted
from gapless.consume.session import TransactionBrokenError
from gapless.consume.unit import Span, Unit, UnitRanges
from gapless.consume.verdict.failure import Failure, UnitFailedError
from gapless.consume.verdict.policy import OnFailure, Policy, Verdict
from gapless.keys import Assignment, Partition
from support.told import Telling
from support.turn import turn

CONN: Any = "the session"
PLACE = Partition(group_id="g", topic="orders", topic_id=1, partition_id=3)
OURS = Assignment(partition=PLACE, epoch=5, token=UUID(int=1))
CONFLICT = psycopg.errors.SerializationFailure("conflict")
ALL = UnitRanges(11, list(range(101, 111)), [2, 4, 6, 8, 10])
ROWS: list[Any] = [
    (number, None, None, b"1", None, None, None, None, 1, 0, None, None) for number in ALL.ids
]


class IsolatedWorld(Telling):
    """The session and the log, with the failures that a test chooses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(CONN)
        self.claims: list[Any] = []
        self.failing: dict[int, BaseException] = {}
        self.checks: list[psycopg.Error] = []
        self.commit: BaseException | None = None
        self.learns = False
        self.parked: set[int] = set()
        for name in (
            "transaction", "call_each", "call_apart", "require_good_unit", "allow_commit", "set_aside",
            "settle_parking", "adapt",
        ):  # fmt: skip
            monkeypatch.setattr(module, name, getattr(self, name))
        monkeypatch.setattr(Parking, "load", self.load)

    def job(
        self, on_failure: OnFailure = "dead-letter", *, batch: bool = False, **said: Any
    ) -> Job:
        handler = (
            gapless.handler(topic="orders", batch=True)(_batch)
            if batch
            else gapless.handler(topic="orders")(_unit)
        )
        policy = Policy(on_failure=on_failure, retry_delays_s=(7.0,))
        ahead = _Backlog()
        ahead.world = self
        return turn(
            CONN, OURS, handler, ahead, policy=policy, units_per_commit=2, worker="w", **said
        )

    def _commit(self) -> None:
        if isinstance(self.commit, TransactionBrokenError):
            self.commit.at = None  # other tests raise it as well
        if self.commit is not None:
            raise self.commit

    def ask(self, conn: object, ours: object, wanted: Wanted) -> Claim:
        assert (conn, ours) == (CONN, OURS)
        if self.claims:
            return self.claims.pop(0)  # type: ignore[no-any-return]
        assert wanted == Wanted(wanted.batch_size, exactly=True)
        units = wanted.batch_size // 2
        self.story.append(f"claim {wanted.batch_size}")
        return Claim(
            outcome="claimed",
            first_offset=11,
            last_offset=10 + wanted.batch_size,
            claim_xid="xid",
            spans=ALL[:units],
        )

    def require_good_unit(self, conn: object, *, sets: bool) -> None:
        assert (conn, sets) == (CONN, False)
        self.story.append("check")
        if self.checks:
            raise self.checks.pop(0)

    def call_each(
        self, handler: object, numbered: Iterable[tuple[int, Unit]], conn: object
    ) -> None:
        for _, unit in numbered:
            self.call(handler, unit, conn)

    def call(self, handler: object, unit: Unit, conn: object) -> None:
        assert conn is CONN
        self.story.append(unit.first_offset)
        error = self.failing.get(unit.first_offset)
        if isinstance(error, psycopg.Error | TransactionBrokenError):
            raise error
        if error is not None:
            raise UnitFailedError(error)

    def call_apart(
        self, handler: object, numbered: Iterable[tuple[int, Unit]], conn: object
    ) -> Iterator[tuple[int, Unit, Failure]]:
        assert conn is CONN
        for at, unit in numbered:
            self.story.append(f"alone {unit.first_offset}")
            error = self.failing.get(unit.first_offset)
            if isinstance(error, TransactionBrokenError):
                error.at = at
                raise error
            if error is CONFLICT:
                raise error
            if error is not None:
                yield at, unit, Failure(error=error, duration_ms=500.0)

    def allow_commit(self, conn: object, xid: str, calls: int) -> None:
        assert (conn, xid) == (CONN, "xid")
        self.story.append(f"allow {calls}")

    def set_aside(self, job: Job, span: Span, failure: Failure, verdict: Verdict) -> None:
        assert (job.conn, job.assignment) == (CONN, OURS)
        self.story.append((span.first_offset, span.last_offset, failure, verdict))

    def adapt(self, handler: object, error: object) -> bool:
        return self.learns

    # -- parked units --

    def load(self, job: Job, spans: UnitRanges) -> Any:
        self.story.append(f"look at {len(spans)}")
        return self

    def numbered(self, units: Iterable[Unit], first: int = 0) -> Iterator[tuple[int, Unit]]:
        return ((at, unit) for at, unit in enumerate(units, first) if not self.parks(unit))

    def parks(self, unit: Unit) -> bool:
        return unit.first_offset in self.parked

    def hold(self, first_offset: int) -> None:
        self.story.append(f"hold {first_offset}")

    def settle_parking(self, parking: object) -> dict[str, int]:
        return {"parked": len(self.parked)} if parking is self else {}


class _Backlog(Backlog):
    """Claims as its world says."""

    __slots__ = ("world",)
    world: IsolatedWorld

    def ask(self, conn: object, assignment: object, wanted: Wanted) -> Claim:
        return self.world.ask(conn, assignment, wanted)


def _unit(unit: object, conn: object) -> None: ...


def _batch(batch: object, conn: object) -> None: ...
