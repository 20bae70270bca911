"""Q1 to Q4: each event of a queue group is handled once or set aside, by one holder at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from chaos.checker.queue_rows import Job, Place, Queues
from chaos.checker.violation import Violation, of_group

if TYPE_CHECKING:
    from chaos.checker.facts import Facts

Jobs = dict[int, list[Job]]


def find(facts: Facts) -> Iterator[Violation]:
    tags = {place: event.tag for place, event in facts.placed_at.items()}
    yield from find_in(facts.queues, tags)


def find_in(queues: Queues, tags: dict[tuple[str, int, int], str | None]) -> Iterator[Violation]:
    """As find(). tags: of the event at each topic, partition and offset."""
    jobs: dict[Place, Jobs] = defaultdict(lambda: defaultdict(list))
    for job in queues.jobs:
        jobs[job.place][job.c_offset].append(job)
    for place, floor in queues.floors.items():
        once = queues.groups[place[0]].delivery == "exactly-once"
        for offset in range(1, floor):
            is_dead = (place, offset) in queues.dead
            yield from _ended(place, offset, jobs[place].get(offset, []), once=once, dead=is_dead)
    yield from _content(queues, tags)
    yield from _floors(queues)
    yield from _answers(queues, jobs)


def _ended(
    place: Place, offset: int, jobs: list[Job], *, once: bool, dead: bool
) -> Iterator[Violation]:
    """Q1, Q4: below the floor each event has one end."""
    effects = [job for job in jobs if not job.is_call]
    if not (effects if once else jobs) and not dead:
        yield of_group(place, offset, "Q1", "job lost", "passed, and nobody did it")
    if len(effects) > 1:
        who = " and ".join(job.who for job in effects)
        yield of_group(place, offset, "Q2", "job done twice", f"by {who}")
    if effects and dead:
        text = f"done by {effects[0].who}, and a dead letter"
        yield of_group(place, offset, "Q1", "job done and dead", text)


def _content(queues: Queues, tags: dict[tuple[str, int, int], str | None]) -> Iterator[Violation]:
    """What was given out is what is at that offset of the log."""
    for job in queues.jobs:
        tag = tags.get((job.place[1], job.place[2], job.c_offset))
        if tag != job.tag:
            text = f"{job.who} got {job.tag}, the log has {tag}"
            yield of_group(job.place, job.c_offset, "Q4", "another job", text)


def _floors(queues: Queues) -> Iterator[Violation]:
    """Q3: a floor passes what was finished, or set aside, before it; and never falls."""
    finished: dict[Place, set[int]] = defaultdict(set)
    stands: dict[Place, int] = {}
    for change in queues.changes:
        place, to = change.place, change.first_offset
        if change.what == "range":
            if change.is_finished:
                finished[place].update(range(to, change.last_offset + 1))
            continue
        stood = stands.get(place, to)
        if to < stood:
            yield of_group(place, to, "Q3", "floor fell", f"from {stood} to {to}")
        for offset in range(stood, to):
            if offset not in finished[place] and (place, offset) not in queues.letters:
                text = f"the floor went from {stood} to {to}, past what nobody had finished"
                yield of_group(place, offset, "Q3", "floor over an open job", text)
        finished[place].difference_update(range(stood, to))
        stands[place] = to


def _answers(queues: Queues, jobs: dict[Place, Jobs]) -> Iterator[Violation]:
    """Q2: who was told that an acknowledgement counts has the only effect; who lost has none."""
    for answer in queues.answers:
        if answer.how not in ("acknowledge", "extend") or answer.ended == "info":
            continue
        for (group, topic, partition), at in jobs.items():
            if (group, partition) != (answer.group, answer.partition):
                continue
            for offset in answer.offsets:
                mine = [job for job in at.get(offset, ()) if job.receipt == answer.receipt]
                place = group, topic, partition
                if answer.ended == "ok" and not mine:
                    text = f"{answer.client} was told that it counts, and its effect is not there"
                    yield of_group(place, offset, "Q2", "acknowledgement lost", text)
                if answer.ended == "lost" and mine:
                    text = f"{answer.client} was told GL003, and its effect is there"
                    yield of_group(place, offset, "Q2", "effect of a lost receipt", text)
