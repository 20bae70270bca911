"""Whether queue groups continue: events left open, events held for long, missing events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gapless.db.queries import query
from gapless.db.schema import schema
from gapless.ops.doctor.finding import Finding, Patient, fail, few, ok, warning
from gapless.ops.rows import rows
from gapless.ops.text import duration, plain, quantity

_HELD_S = 600.0  # the time for which events may be in hand, and failed ones may wait
_OPEN_S = 60.0  # the time for which events may be open without a worker


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """The state of a queue group in a partition, as gapless.queue_state() counts.

    missing_…: events that are missing from the log, which it cannot get past. gap_…: open events
    below noted ones of their block, where no worker leaves any. held_…: the events that have been
    in hand with a receipt the longest; work_…: the oldest transaction that has some in hand.
    waits_s: seconds until the next attempt of a failed one. is_swept: the first event from the
    floor on is not finished. None: there is none.
    """

    group: str
    topic: str
    partition: int
    next_offset: int
    lease_no: int
    open: int
    in_work: int
    in_hand: int
    lapsed: int
    finished_ahead: int
    waiting: int
    oldest_open_s: float
    is_paused: bool
    is_swept: bool
    workers: int
    missing: str | None
    missing_first: int | None
    missing_last: int | None
    gap_first: int | None
    gap_last: int | None
    held_first: int | None
    held_last: int | None
    held_by: str | None
    held_s: float | None
    work_pid: int | None
    work_s: float | None
    waits_s: float | None

    @property
    def name(self) -> str:
        return plain(f"{self.group}/{self.topic}/{self.partition}")

    @property
    def behind(self) -> str:
        """The consequence of a floor that does not move."""
        if not self.finished_ahead:
            return ""
        return (
            f"; {quantity(self.finished_ahead, 'event')} above the floor "
            f"{'is' if self.finished_ahead == 1 else 'are'} finished, and retention keeps the log "
            f"from offset {self.next_offset} on"
        )

    @property
    def is_left(self) -> bool:
        """Whether no event of it is in hand."""
        return not (self.in_work or self.in_hand)


def queues(patient: Patient) -> Iterator[Finding]:
    """Find partitions of queue groups that do not continue, with a remedy for each."""
    found = rows(patient.conn, QueueFacts, query("doctor", "queues"))
    ill = [finding for each in found for finding in _findings(each)]
    yield from few(ill, "gapless queue state GROUP shows all partitions")
    if not ill:
        yield ok("queues", f"{quantity(len(found), 'partition')} of queue groups, all continue")


def _findings(facts: QueueFacts) -> Iterator[Finding]:
    """Find the troubles of a partition; a paused one rests on purpose."""
    if facts.missing is not None:
        yield _missing(facts)
    if facts.is_paused:
        return
    yield from _held(facts)
    if facts.is_left:
        yield from _left(facts)


def _missing(facts: QueueFacts) -> Finding:
    what = "were dropped by retention" if facts.missing == "overrun" else "are missing from the log"
    place = f"{facts.name}@{facts.missing_first}"
    restore = "" if facts.missing == "overrun" else "restore them, or "
    return fail(
        "queues",
        f"{facts.name} does not get past offsets {facts.missing_first} to {facts.missing_last}, "
        f"which {what}",
        f"{restore}gapless skip {place} continues without them",
    )


def _held(facts: QueueFacts) -> Iterator[Finding]:
    """Find events that have been in hand for long: the floor and retention wait for them."""
    if (facts.held_s or 0.0) > _HELD_S:
        holder = (facts.held_by or "").replace("'", "''")
        yield warning(
            "queues",
            f"{facts.name}: {plain(facts.held_by or 'an unnamed client')} has had offsets "
            f"{facts.held_first} to {facts.held_last} in hand for {duration(facts.held_s or 0)}"
            f"{facts.behind}",
            plain(
                f"if it is gone: select {schema()}.end_holder('{holder}') gives all it has to "
                "others"
            ),
        )
    if (facts.work_s or 0.0) > _HELD_S:
        yield warning(
            "queues",
            f"{facts.name}: pid {facts.work_pid} has had events in hand for "
            f"{duration(facts.work_s or 0)}, in an open transaction{facts.behind}",
            f"select pg_terminate_backend({facts.work_pid}) gives them to others",
        )


def _left(facts: QueueFacts) -> Iterator[Finding]:
    """Find events that are not in hand, and that no worker takes."""
    free = facts.open + facts.lapsed
    if facts.gap_first is not None and facts.missing is None:
        yield fail(
            "queues",
            f"{facts.name}: offsets {facts.gap_first} to {facts.gap_last} are open, in front of "
            f"taken events of their block{facts.behind}",
            f"gapless queue take {facts.name.rpartition('/')[0]} takes them, once nothing newer is "
            "open",
        )
    if free:
        yield from _untaken(facts, free)
        return
    if not facts.is_swept and facts.oldest_open_s > _HELD_S:
        yield warning(
            "queues",
            f"{facts.name}: all is finished, and no worker moved the floor{facts.behind}",
            f"start a worker, or: select {schema()}.sweep({facts.lease_no})",
        )
    if facts.waiting and (facts.waits_s or 0.0) > _HELD_S:
        yield warning(
            "queues",
            f"{facts.name}: all that is left, {quantity(facts.waiting, 'unit')}, waits for another "
            f"attempt, the next in {duration(facts.waits_s or 0)}",
            f"gapless dlq redrive --group {plain(facts.group)} --state waiting --yes tries it now",
        )


def _untaken(facts: QueueFacts, free: int) -> Iterator[Finding]:
    """Find open events without a worker; a hole is another finding."""
    if facts.workers or facts.missing is not None or facts.oldest_open_s <= _OPEN_S:
        return
    age = duration(facts.oldest_open_s)
    yield warning(
        "queues",
        f"{facts.name}: {quantity(free, 'event')} open, the oldest for {age}, and no worker",
        f"start one: gapless run; by hand: gapless queue take {facts.name.rpartition('/')[0]}",
    )
