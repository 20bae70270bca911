"""S1 to S4: an event for later comes once and not before its time, or was cancelled; whole, and in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from chaos.checker import schedules
from chaos.checker.later_rows import Later, Wait
from chaos.checker.rows import Placed
from chaos.checker.violation import Violation, about

if TYPE_CHECKING:
    from chaos.checker.facts import Facts

Group = tuple[str, float, int]  # the transaction, its time, the partition


def find(facts: Facts) -> Iterator[Violation]:
    yield from find_in(facts.later)
    yield from schedules.find_in(facts.later)


def find_in(later: Later) -> Iterator[Violation]:
    """As find(), of events that were published for later."""
    yield from _Events(later).find()


class _Events:
    def __init__(self, later: Later) -> None:
        self._later = later
        self._begun = {wait.tag: wait for wait in later.waits if wait.what == "INSERT"}
        self._ends: dict[str, list[Wait]] = defaultdict(list)
        for wait in later.waits:
            if wait.what == "DELETE":
                self._ends[wait.tag].append(wait)
        self._places: dict[str, list[Placed]] = defaultdict(list)
        for events in later.log.values():
            for event in events:
                if event.tag is not None:
                    self._places[event.tag].append(event)

    def find(self) -> Iterator[Violation]:
        yield from self._published()
        for tag, wait in self._begun.items():
            yield from self._once(tag, wait)
        yield from self._told()
        yield from self._whole()
        yield from self._in_order()

    def _published(self) -> Iterator[Violation]:
        """S1: what committed waits, or is in the log; what was rolled back does neither."""
        for said in self._later.said:
            fate = self._later.attempts[said.attempt].fate
            is_there = said.tag in self._begun or said.tag in self._places
            if fate == "committed" and not is_there:
                yield _of(said.tag, "S1", "wait lost", "it committed, and neither waits nor came")
            if fate == "aborted" and is_there:
                yield _of(said.tag, "S1", "ghost", "its transaction was rolled back")
            if said.scheduled_id is None and len(self._places[said.tag]) > 1:
                yield _of(said.tag, "S1", "came twice", "it was published at once")

    def _once(self, tag: str, wait: Wait) -> Iterator[Violation]:
        """S1, S2: one end of each wait: in the log once, and not before; or cancelled."""
        came, ends = self._places[tag], self._ends[tag]
        if len(came) > 1:
            yield about(came[1], "S1", "came twice", f"it is in the log {len(came)} times")
        if any(end.is_cancel for end in ends):
            if came:
                yield about(came[0], "S2", "cancelled and delivered", "both")
            return
        yield from self._promoted(tag, wait, ends, came)

    def _promoted(
        self, tag: str, wait: Wait, ends: list[Wait], came: list[Placed]
    ) -> Iterator[Violation]:
        for end in ends:
            early_s = wait.deliver_at - self._later.latest(end.began, end.at)
            if early_s > 0:
                yield _of(tag, "S1", "before its time", f"by {early_s:.3f} s")
        if ends and not came:
            yield _of(tag, "S1", "lost on the way", "its wait ended, and it is not in the log")
        if came and not ends:
            yield about(came[0], "S1", "came, and waits still", "it would come again")
        if not ends and not came and wait.deliver_at <= self._later.ended:
            yield _of(tag, "S1", "not promoted", "its time has passed, and it still waits")

    def _told(self) -> Iterator[Violation]:
        """S2: who was told that it is cancelled was told the truth, and so was who came too late."""
        for cancel in self._later.cancels:
            if cancel.ended != "ok" or cancel.told is None:
                continue
            ends = self._ends[cancel.tag]
            if cancel.told and not any(end.is_cancel for end in ends):
                text = f"{cancel.client} was told so, and it was not"
                yield _of(cancel.tag, "S2", "cancel lost", text)
            if not cancel.told and not ends:
                text = f"{cancel.client} was told that it came, and it waits"
                yield _of(cancel.tag, "S2", "cancel denied", text)

    def _whole(self) -> Iterator[Violation]:
        """S3: events of one transaction and time are neighbours, in their order, one unit."""
        groups: dict[Group, list[tuple[Wait, Placed]]] = defaultdict(list)
        for wait in sorted(self._begun.values(), key=lambda each: each.scheduled_id):
            for place in self._places[wait.tag][:1]:
                key = (wait.scheduled_xid, wait.deliver_at, place.partition_id)
                groups[key].append((wait, place))
        for (scheduled_xid, _, partition), group in groups.items():
            for (_, one), (_, other) in pairwise(group):
                if other.c_offset != one.c_offset + 1:
                    text = f"{one.tag} of its transaction and time is at {one.c_offset}"
                    yield about(other, "S3", "torn apart", text)
                elif one.ends_unit:
                    yield about(one, "S3", "torn apart", "its unit ends in the middle")
            yield from self._ends_there(scheduled_xid, partition, group[-1][1])

    def _ends_there(self, xid: str, partition: int, last: Placed) -> Iterator[Violation]:
        """The same transaction may go on, with another time that came at the same moment."""
        if last.ends_unit:
            return
        rest = [e for e in self._later.log[partition] if e.c_offset == last.c_offset + 1]
        if not rest or self._scheduled_xid(rest[0]) != xid:
            yield about(last, "S3", "taken together", "another transaction is taken for its unit")

    def _scheduled_xid(self, event: Placed) -> str | None:
        wait = self._begun.get(event.tag or "")
        return wait.scheduled_xid if wait else None

    def _in_order(self) -> Iterator[Violation]:
        """S4: what one transaction promoted is in the order of times, then of transactions.

        Left out is what it may have met only after others: what had not committed when it began, and
        what somebody had tried to cancel.
        """
        first: dict[tuple[str, float], int] = {}
        for wait in self._begun.values():
            key = (wait.scheduled_xid, wait.deliver_at)
            first[key] = min(first.get(key, wait.scheduled_id), wait.scheduled_id)
        touched = {
            self._begun[each.tag].scheduled_xid
            for each in self._later.cancels
            if each.tag in self._begun
        }
        for events in self._later.log.values():
            before: tuple[str, tuple[float, int, int], Placed] | None = None
            for event in events:
                wait = self._begun.get(event.tag or "")
                if wait is None or not self._was_at_hand(wait, touched):
                    continue
                rank = (wait.deliver_at, first[wait.scheduled_xid, wait.deliver_at])
                now = (event.xid or "", (*rank, wait.scheduled_id), event)
                if before is not None and before[0] == now[0] and before[1] > now[1]:
                    text = f"it came after {before[2].tag}, which was due later"
                    yield about(event, "S4", "out of turn", text)
                before = now

    def _was_at_hand(self, wait: Wait, touched: set[str]) -> bool:
        attempt = self._later.attempts.get(wait.tag.partition("/")[0])
        ends = self._ends[wait.tag]
        if attempt is None or attempt.committed_ns is None or not ends:
            return False
        committed = (attempt.committed_ns + self._later.clock_ns) / 1e9
        return wait.scheduled_xid not in touched and committed < ends[0].began


def _of(tag: str, invariant: str, name: str, text: str) -> Violation:
    attempt = tag.partition("/")[0]
    return Violation(
        invariant=invariant, name=name, text=f"{tag}: {text}", tag=tag, attempt=attempt
    )
