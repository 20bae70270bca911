"""The problems that a person should act on, each with its remedy: the same everywhere (pure).

The console and `gapless status` print them, documents list them, and the gateway's page shows what
its document says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from operator import attrgetter, itemgetter

from gapless.status.groups import GroupLine, group_lines
from gapless.status.section import UNROUTED_AS_PROBLEM, StatusProblem, sections
from gapless.status.snapshot import Snapshot
from gapless.status.unsequenced import START, unsequenced
from gapless.status.words import age, count, counted, some

OLD_TRANSACTION_S = 60.0
_CONDITIONS = ("silent", "gone")


def problems(snapshot: Snapshot) -> list[StatusProblem]:
    """Return them, those that keep events from being handled first, then as they are listed."""
    lines = group_lines(snapshot)
    found = [
        *_of_sequencer(snapshot),
        *_stopped(lines),
        *_unserved(snapshot),
        *_of_members(snapshot),
        *_of_others(snapshot),
        *_ranked(snapshot),
        *_of_the_log(snapshot),
        *_paused(snapshot),
        *(problem for line in lines for problem in _set_aside(line)),
        *_old_transaction(snapshot),
    ]
    return sorted(found, key=attrgetter("is_bad"), reverse=True)


def _of_sequencer(snapshot: Snapshot) -> Iterator[StatusProblem]:
    if waits := unsequenced(snapshot.sequencer, snapshot.pending):
        yield StatusProblem(waits, START, is_bad=True)
    if snapshot.sequencer.needs_rebase:
        remedy = "its next sequencer run goes over all of it once"
        yield StatusProblem("this log came from another server", remedy, is_bad=True)


def _stopped(lines: Iterable[GroupLine]) -> Iterator[StatusProblem]:
    for line in lines:
        if line.stopped:
            stopped = f"{line.name}: {some(line.stopped, 'partition')} stopped by an error"
            yield StatusProblem(
                stopped, "gapless doctor says what helps", is_bad=True, page=_page(line)
            )


def _unserved(snapshot: Snapshot) -> Iterator[StatusProblem]:
    """Say how many partitions have no supervisor; without one, an idle group is no problem."""
    rows = [row for row in snapshot.partitions if row.state == "unserved"]
    lag = sum(row.lag for row in rows)
    if not rows or not (lag or snapshot.members):
        return
    of_all = some(len(snapshot.partitions), "partition")
    have, them = ("has", "it") if len(rows) == 1 else ("have", "them")
    groups = {("groups", row.group_id, row.topic) for row in rows}
    yield StatusProblem(
        f"{count(len(rows))} of {of_all} {have} no supervisor to work on {them}",
        "start gapless run with a handler of the group",
        is_bad=lag > 0,
        page=groups.pop() if len(groups) == 1 else (),
    )


def _of_members(snapshot: Snapshot) -> Iterator[StatusProblem]:
    for member in snapshot.members:
        if member.revoked_role is not None:
            yield StatusProblem(member.revoked, member.remedy)
        elif member.condition in _CONDITIONS:
            said = f"{member.kind} {member.name} is {member.condition}"
            yield StatusProblem(
                said, "the others take its partitions when its time to live is over"
            )


def _of_others(snapshot: Snapshot) -> Iterator[StatusProblem]:
    for holder in snapshot.foreign_locks:
        yield StatusProblem(str(holder), holder.remedy, is_bad=True)
    for each in snapshot.obstacles:
        yield StatusProblem(each.problem, each.remedy, is_bad=each.kind != "clock")


def _ranked(snapshot: Snapshot) -> Iterator[StatusProblem]:
    """Yield problems of features, and those of events without a topic among them."""
    unrouted = (StatusProblem(each.problem, each.remedy) for each in snapshot.unrouted)
    ranked: list[tuple[int, Iterable[StatusProblem]]] = [
        (UNROUTED_AS_PROBLEM, unrouted),
        *(
            (each.rank.problem, each.problems(snapshot.beside.get(each.record, ())))
            for each in sections()
            if each.problems is not None
        ),
    ]
    for _, found in sorted(ranked, key=itemgetter(0)):
        yield from found


def _of_the_log(snapshot: Snapshot) -> Iterator[StatusProblem]:
    for change in snapshot.changes:
        page = ("groups", change.group_id, change.topic)
        yield StatusProblem(str(change), "its members do so by themselves", page=page)
    for held in snapshot.held:
        waits = f"retention waits: {held.reason}"
        yield StatusProblem(waits, "gapless retention shows the chunks", page=("retention",))


def _paused(snapshot: Snapshot) -> Iterator[StatusProblem]:
    paused = Counter(
        (row.group_id, row.topic, row.pause)
        for row in snapshot.partitions
        if row.paused_ts is not None
    )
    for (group_id, topic, pause), partitions in paused.items():
        said = f"{group_id}/{topic}: {some(partitions, 'partition')} paused by {pause or '?'}"
        remedy = f"gapless resume {group_id} ends it"
        yield StatusProblem(said, remedy, page=("groups", group_id, topic))


def _set_aside(line: GroupLine) -> Iterator[StatusProblem]:
    letters = "dead letter" if line.dead_letters == 1 else "dead letters"
    wait = "waits" if line.waiting == 1 else "wait"
    found = [
        (line.dead_letters, "dead", f"{counted(line.dead_letters)} {letters}"),
        (line.waiting, "waiting", f"{some(line.waiting, 'unit')} {wait} for another attempt"),
        (line.parked, "parked", f"{some(line.parked, 'unit')} parked behind one of their key"),
    ]
    said = {state: text for number, state, text in found if number}
    if said:
        text, remedy = ", ".join(said.values()), f"gapless dlq list --group {line.group_id}"
        page = ("dead", line.group_id, next(iter(said)))
        yield StatusProblem(f"{line.name}: {text}", remedy, page=page)
    if line.lapsed:
        lapsed = f"{line.name}: {some(line.lapsed, 'reservation')} lapsed"
        yield StatusProblem(lapsed, "the next worker takes the events again", page=_page(line))


def _old_transaction(snapshot: Snapshot) -> Iterator[StatusProblem]:
    server = snapshot.server
    if (server.oldest_transaction_s or 0.0) > OLD_TRANSACTION_S:
        opened = f"transaction open for {age(server.oldest_transaction_s)}, holds back vacuum"
        yield StatusProblem(
            f"{server.oldest_transaction or 'a client'}: {opened}", "end its session"
        )


def _page(line: GroupLine) -> tuple[str, ...]:
    return ("groups", line.group_id, line.topic)
