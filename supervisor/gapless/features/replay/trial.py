"""A dry run: handle a range as a replay would, in one transaction, and roll it back.

One transaction, so that each unit sees the effects of the ones before it, as in a real replay. A
claim is handled under one savepoint; if that fails, each of its units again under its own. Nothing
is ever declared finished, so a handler that says COMMIT is refused, as always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, LiteralString
from uuid import uuid4

import psycopg
from psycopg.rows import tuple_row

from gapless.consume.batch import Batch
from gapless.consume.read.backlog import Backlog
from gapless.consume.read.claim import Claim, Wanted
from gapless.consume.read.units import at_once, load_units, read_units
from gapless.consume.session import TransactionBrokenError, run
from gapless.consume.terms import Terms
from gapless.consume.unit import Unit, UnitRanges
from gapless.consume.user.call import ENDED, call, call_each
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.failure import UnitFailedError
from gapless.db.connect import is_transient
from gapless.db.inherited import keep_from_children
from gapless.db.queries import query
from gapless.db.refused import refused
from gapless.errors import GaplessError
from gapless.features.replay.plan import ReplayBounds, ReplayRange, find_bounds, singly
from gapless.features.replay.run import patiently
from gapless.features.replay.tally import ReplayTrial, TrialTally
from gapless.keys import Assignment, Partition
from gapless.log.topics import require_topic
from gapless.ops.rows import require_autocommit

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["try_replay"]

_NONE: Mapping[str, object] = MappingProxyType({})

UnitKey = tuple[int, int]  # partition and first offset


class _EndedError(Exception):
    """The handler ended the transaction: all effects are lost, begin anew."""


def try_replay(
    conn: Connection[Any],
    wanted: ReplayRange,
    handler: Handler,
    terms: Terms,
    *,
    progress: Callable[[int], None] = lambda _: None,
) -> ReplayTrial:
    """Call the handler for the whole range of a replay, in one transaction, and roll it back.

    Before: `conn` is in autocommit. terms: of replay_terms(). progress: is called with the number
    of events done. Effects of the handler outside of the database stay. Until the end, the rows
    that the handler wrote are locked, and vacuum and retention wait. Raises the errors of
    create_replay() and run_replay(); nothing is left then.
    """
    require_autocommit(conn, "try_replay()")
    found = find_bounds(conn, wanted)
    return _Trial(conn, wanted.name, singly(handler), terms, found, progress).run()


class _Trial:
    """A dry run of `handler` over `found`; `show` is called with the number of events done.

    An attempt that loses its transaction to a handler is repeated, and that handler's unit, now
    known, is not called again.
    """

    def __init__(
        self,
        conn: Connection[Any],
        name: str,
        handler: Handler,
        terms: Terms,
        found: Sequence[ReplayBounds],
        show: Callable[[int], None],
    ) -> None:
        keep_from_children(conn)
        self._conn = conn
        self._name = name
        self._handler = handler
        self._terms = terms
        self._ranges = found
        self._show = show
        self._topic = require_topic(conn, terms.topic)
        self._slow: set[UnitKey] = set()  # claims whose units are to be handled one by one
        self._enders: dict[UnitKey, BaseException] = {}  # units that ended their transaction
        self._xid = ""
        self._tally = TrialTally()

    def run(self) -> ReplayTrial:
        while not patiently(self._once):
            pass
        return self._tally.result()

    def _once(self) -> bool:
        """Begin anew; tell whether the attempt reached the end."""
        self._tally = TrialTally()
        try:
            with _rolled_back(self._conn):
                self._attempt()
        except _EndedError:
            return False
        return True

    def _attempt(self) -> None:
        what = {
            "group": self._name,
            "topic": self._topic.name,
            "partitions": [each.partition_id for each in self._ranges],
            "starts": [each.start_offset for each in self._ranges],
            "stops": [each.stop_offset for each in self._ranges],
        }
        self._ask(query("replay", "create_trial"), what)
        self._ask(
            query("replay", "replay_for"),
            {"group": self._name, "topic": self._topic.name, "of": self._terms.group_id},
        )
        takes = self._terms.filter
        if takes is not None and not takes.takes_all:
            place = {"group_id": self._name, "topic": self._topic.name}
            with refused():
                self._ask(query("filters", "set_filter"), takes.query_params | place)
        at = {each.partition_id: each.start_offset for each in self._ranges}
        moved = True
        while moved:  # partitions may wait for one another, after a change of their number
            before = dict(at)
            for each in self._ranges:
                if at[each.partition_id] < each.stop_offset:
                    at[each.partition_id] = self._partition(each, at[each.partition_id])
            moved = at != before
        for each in self._ranges:
            if at[each.partition_id] < each.stop_offset:
                raise GaplessError(
                    f"{self._topic.name}/{each.partition_id} waits for earlier events, in "
                    "partitions outside of the range: take all of the topic"
                )

    def _partition(self, part: ReplayBounds, at: int) -> int:
        """Handle a partition from `at` as far as possible; return the next offset."""
        partition = Partition(
            group_id=self._name,
            topic=self._topic.name,
            topic_id=self._topic.topic_id,
            partition_id=part.partition_id,
            is_replay=True,
        )
        token = uuid4()
        where = {"group": self._name, "topic_id": partition.topic_id}
        epoch, _ = self._ask(
            query("replay", "take_part"),
            {**where, "partition_id": part.partition_id, "token": token},
        )
        assignment = Assignment(partition=partition, epoch=epoch, token=token)
        backlog = Backlog()
        while at < part.stop_offset:
            size = min(self._terms.batch_size, part.stop_offset - at)
            wanted = Wanted(size, at_once(self._terms), self._terms.group_by)
            claimed = backlog.ask(self._conn, assignment, wanted)
            if claimed.outcome == "idle":
                break
            if claimed.outcome != "claimed":
                raise GaplessError(f"{partition} cannot be handled now: it is {claimed.outcome}")
            self._xid = claimed.claim_xid
            self._claim(partition, claimed)
            at = claimed.last_offset + 1
            self._tally.events += claimed.last_offset - claimed.first_offset + 1
            self._show(self._tally.events)
        return at

    def _claim(self, partition: Partition, claimed: Claim) -> None:
        """Handle the units of a claim, all at once, or one by one if that fails."""
        spans = claimed.spans
        if not spans:  # its filter keeps nothing here
            return
        units = load_units(self._conn, partition, claimed, self._terms)
        place = (partition.partition_id, claimed.first_offset)
        is_slow = place in self._slow
        if not is_slow and self._try(lambda: self._together(units)) is not None:
            is_slow = True
            self._slow.add(place)
            if not self._is_ours():
                raise _EndedError
        if is_slow:
            self._one_by_one(partition, spans)
        else:
            self._tally.handled += len(spans)
        # Permanently, while no handler runs: otherwise the next claim would check them all again.
        self._ask(query("replay", "apply_constraints"))

    def _together(self, units: Iterator[Unit]) -> None:
        if self._handler.batch:
            call(self._handler, Batch(units), self._conn)
        else:
            call_each(self._handler, enumerate(units), self._conn)

    def _one_by_one(self, partition: Partition, spans: UnitRanges) -> None:
        for unit in read_units(self._conn, partition, spans, self._terms):
            place = (partition.partition_id, unit.first_offset)
            error = self._enders.get(place)
            if error is None:
                error = self._try(lambda unit=unit: self._alone(unit))  # type: ignore[misc]
                if error is not None and not self._is_ours():
                    self._enders[place] = error
                    raise _EndedError
            self._tally.add(unit, error)

    def _alone(self, unit: Unit) -> None:
        call(self._handler, Batch([unit]) if self._handler.batch else unit, self._conn)

    def _try(self, do: Callable[[], None]) -> BaseException | None:
        """Do it under a savepoint; return the error, with no effects left, or None."""
        try:
            with self._conn.transaction():
                do()
                # MUST stay undone: the refusal of a COMMIT is one of the checks of a claim.
                run(self._conn, "check_unit", {"settings": None})
                self._require_ours()
        except UnitFailedError as failed:
            return failed.error
        except TransactionBrokenError as error:
            return error
        except psycopg.Error as error:
            if is_transient(error):
                raise
            return error
        return None

    def _require_ours(self) -> None:
        if not self._is_ours():
            raise TransactionBrokenError(ENDED)

    def _is_ours(self) -> bool:
        """Tell whether the transaction that claimed is still the open one."""
        if self._conn.info.transaction_status != psycopg.pq.TransactionStatus.INTRANS:
            return False
        return self._ask(query("replay", "current_xid")) == (self._xid,)

    def _ask(self, text: LiteralString, params: Mapping[str, object] = _NONE) -> tuple[Any, ...]:
        """Return the row of a query, even if a handler changed the connection's row factory."""
        with self._conn.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(text, params).fetchone()
        assert row is not None
        return row


@contextmanager
def _rolled_back(conn: Connection[Any]) -> Iterator[None]:
    """Open a transaction that is always rolled back.

    Not in autocommit meanwhile: rows that a handler writes after its own ROLLBACK must not stay.
    """
    conn.autocommit = False
    try:
        with conn.transaction(force_rollback=True):
            yield
    finally:
        if not conn.closed:
            conn.rollback()
            conn.autocommit = True
