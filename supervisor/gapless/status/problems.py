"""The problems that a person should act on, each with its remedy: the same everywhere (pure).

The console and `gapless status` print them, documents list them, and the gateway's page shows what
its document says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from operator import attrgetter, itemgetter

from gapless.db.schema import schema
from gapless.status.groups import GroupLine, group_lines
from gapless.status.section import UNROUTED_AS_PROBLEM, StatusProblem, sections
from gapless.status.snapshot import Presence, Snapshot, Standing
from gapless.status.unsequenced import START, remedy_of_stuck, stuck, unsequenced
from gapless.status.words import count, counted, some

OLD_TRANSACTION_S = 60.0
ERROR_MAX = 160  # characters of an error: its partition has all of them
UNSERVED_MAX = 5  # groups that are named one by one
END_OF_UPGRADE = "it ends when all members run the same version of gapless"
_CONDITIONS = ("silent", "gone")


def problems(snapshot: Snapshot) -> list[StatusProblem]:
    """Return them, those that keep events from being handled first, then as they are listed."""
    lines = group_lines(snapshot)
    found = [
        *_of_sequencer(snapshot),
        *_stopped(snapshot, lines),
        *_unserved(snapshot, lines),
        *_of_members(snapshot),
        *_of_others(snapshot),
        *_ranked(snapshot),
        *_of_the_log(snapshot),
        *_paused(snapshot),
        *(problem for line in lines for problem in _set_aside(snapshot, line)),
        *_old_transaction(snapshot),
    ]
    return sorted(found, key=attrgetter("is_bad"), reverse=True)


def _of_sequencer(snapshot: Snapshot) -> Iterator[StatusProblem]:
    sequencer, since_s = snapshot.sequencer, snapshot.totals.pending_s
    if waits := unsequenced(sequencer, snapshot.pending):
        yield StatusProblem(waits, START, is_bad=True, since_s=since_s, command="gapless run")
    if waits := stuck(sequencer, snapshot.pending, snapshot.server.taken_ts):
        remedy = remedy_of_stuck(sequencer.pid or 0)
        command = remedy.partition(":")[0]
        yield StatusProblem(
            waits, remedy, is_bad=True, page=("server",), since_s=since_s, command=command
        )
    if sequencer.needs_rebase:
        remedy = "its next sequencer run goes over all of it once"
        yield StatusProblem("this log came from another server", remedy, is_bad=True)


def _stopped(snapshot: Snapshot, lines: Iterable[GroupLine]) -> Iterator[StatusProblem]:
    for line in lines:
        if line.stopped:
            rows = [
                row
                for row in snapshot.partitions
                if row.error is not None and row.key[:2] == line.key
            ]
            first = min(rows, key=_since)
            why = (first.error or "").removeprefix("stopped: ")
            of = f"{_behind(rows)}{some(line.stopped, 'partition')}"
            yield StatusProblem(
                f"{line.name}: {of} stopped: {why[:ERROR_MAX]}",
                first.remedy or "gapless doctor says what helps",
                is_bad=True,
                page=_page(line),
                since_s=_age(snapshot, (row.error_ts for row in rows)),
                command="" if first.remedy else "gapless doctor",
            )


def _unserved(snapshot: Snapshot, lines: Iterable[GroupLine]) -> Iterator[StatusProblem]:
    """Name groups without a supervisor, or count them; without any, an idle group is no problem."""
    found: dict[tuple[str, str], list[Standing]] = defaultdict(list)
    for row in snapshot.partitions:
        if row.state == "unserved":
            found[row.key[:2]].append(row)
    groups = [
        (line, found[line.key])
        for line in lines
        if line.unserved and (_lag(found[line.key]) or (snapshot.members and not line.start))
    ]
    if len(groups) > UNSERVED_MAX:
        rows = [row for _, own in groups for row in own]
        of_all = some(len(snapshot.partitions), "partition")
        said = f"{count(len(groups))} groups: nobody works on {count(len(rows))} of {of_all}"
        yield _nobody(said, rows, ())
        return
    for line, rows in sorted(groups, key=lambda each: -_lag(each[1])):
        part = f"{count(line.unserved)} of {some(line.partitions, 'partition')}"
        is_all = line.unserved == line.partitions or line.mode == "queue"  # its workers take all
        of = "it" if is_all else part
        said = f"{line.name}: nobody works on {of}"
        yield _nobody(said, rows, _page(line), line.start)


def _nobody(
    said: str, rows: Sequence[Standing], page: tuple[str, ...], start: str = ""
) -> StatusProblem:
    lag = _lag(rows)
    return StatusProblem(
        f"{said}, {count(lag)} behind" if lag else said,
        f"start {start or 'gapless run with a handler of the group'}",
        is_bad=lag > 0,
        page=page,
        since_s=max(row.lag_s or 0.0 for row in rows) if lag else None,
        command=start or "gapless run",
    )


def _lag(rows: Iterable[Standing]) -> int:
    return sum(row.lag for row in rows)


def _behind(rows: Iterable[Standing]) -> str:
    """Return the beginning of a problem that ends with the words of others: how bad it is."""
    lag = _lag(rows)
    return f"{count(lag)} behind, " if lag else ""


def _of_members(snapshot: Snapshot) -> Iterator[StatusProblem]:
    if all(each.condition in (*_CONDITIONS, "revoked") for each in snapshot.members):
        remedy = "start another gapless run: nobody else takes its partitions"
    else:
        remedy = "the others take its partitions when its time to live is over"
    for member in snapshot.members:
        if member.revoked_role is not None:
            yield StatusProblem(member.revoked, member.remedy)
        elif member.condition in _CONDITIONS:
            said = f"{member.kind} {member.name} is {member.condition}"
            yield StatusProblem(said, remedy, since_s=member.beat_s)
    if (mixed := mixed_versions(snapshot.members)) is not None:
        said, since_s = mixed
        yield StatusProblem(said, END_OF_UPGRADE, page=("members",), since_s=since_s)


def mixed_versions(members: Iterable[Presence]) -> tuple[str, float] | None:
    """Return a sentence on members of different versions, and for how long yet; None: all agree."""
    ups: dict[str, list[float]] = defaultdict(list)
    for member in members:
        if member.version is not None:
            ups[member.version].append(member.up_s)
    if len(ups) < 2:
        return None
    said = ", ".join(f"{count(len(own))} run {name}" for name, own in sorted(ups.items()))
    return f"a rolling upgrade is under way: {said}", min(max(own) for own in ups.values())


def _of_others(snapshot: Snapshot) -> Iterator[StatusProblem]:
    for holder in snapshot.foreign_locks:
        yield StatusProblem(str(holder), holder.remedy, is_bad=True)
    for each in snapshot.obstacles:
        is_bad = each.kind != "clock"
        since_s = each.since_s if is_bad and each.since_s else None  # of a clock: by so much
        yield StatusProblem(each.problem, each.remedy, is_bad=is_bad, since_s=since_s)


def _ranked(snapshot: Snapshot) -> Iterator[StatusProblem]:
    """Yield problems of features, and those of events without a topic among them."""
    unrouted = (
        StatusProblem(each.problem, each.remedy, since_s=each.since_s, command=each.remedy)
        for each in snapshot.unrouted
    )
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
        remedy = "gapless retention shows the chunks"
        yield StatusProblem(
            waits, remedy, page=("retention",), since_s=held.since_s, command="gapless retention"
        )


def _paused(snapshot: Snapshot) -> Iterator[StatusProblem]:
    paused: dict[tuple[str, str, str | None], list[Standing]] = defaultdict(list)
    for row in snapshot.partitions:
        if row.paused_ts is not None:
            paused[row.group_id, row.topic, row.pause].append(row)
    for (group_id, topic, pause), rows in paused.items():
        resume = f"gapless resume {group_id}"
        yield StatusProblem(
            f"{group_id}/{topic}: {_behind(rows)}{some(len(rows), 'partition')} paused "
            f"by {pause or '?'}",
            f"{resume} ends it",
            page=("groups", group_id, topic),
            since_s=_age(snapshot, (row.paused_ts for row in rows)),
            command=resume,
        )


def _set_aside(snapshot: Snapshot, line: GroupLine) -> Iterator[StatusProblem]:
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
        since_s = _age(snapshot, [line.aside_ts])
        yield StatusProblem(
            f"{line.name}: {text}", remedy, page=page, since_s=since_s, command=remedy
        )
    if line.lapsed:
        lapsed = f"{line.name}: {some(line.lapsed, 'reservation')} lapsed"
        start = "" if line.workers else line.start or "gapless run"
        yield StatusProblem(
            lapsed,
            "the next free worker takes the events again"
            + (f", or a client that asks: start {start}" if start else ""),
            page=_page(line),
            since_s=_age(snapshot, [line.lapsed_ts]),
            command=start,
        )


def _old_transaction(snapshot: Snapshot) -> Iterator[StatusProblem]:
    server = snapshot.server
    if (server.oldest_transaction_s or 0.0) > OLD_TRANSACTION_S:
        said = f"{server.oldest_transaction or 'a client'}: transaction open, holds back vacuum"
        since_s = server.oldest_transaction_s
        own = (row for row in snapshot.partitions if server.oldest_transaction in _sessions(row))
        if (row := next(own, None)) is None:
            yield StatusProblem(said, "end its session", since_s=since_s)
            return
        place = f"{row.group_id}/{row.topic}"
        work = f"gapless groups work {place}"
        lag = _behind(each for each in snapshot.partitions if each.key[:2] == row.key[:2])
        said = f"{place}: {lag}a worker has been in one transaction"
        remedy, page = f"{work} shows the unit that takes so long", ("groups", *row.key[:2])
        yield StatusProblem(said, remedy, page=page, since_s=since_s, command=work)


def _sessions(row: Standing) -> set[str]:
    """Return the names of sessions of workers that may serve it."""
    group, place = row.group_id, f"{row.group_id}/{row.topic}"
    roles = (f"worker {place}", f"worker {place}/{row.partition_id}", f"queue worker {group}")
    return {f"{schema()}/{role}"[:63] for role in roles}


def _since(row: Standing) -> float:
    return row.error_ts.timestamp() if row.error_ts else 0.0


def _age(snapshot: Snapshot, times: Iterable[datetime | None]) -> float | None:
    """Return the age of the oldest of them by the database's clock; None: there is none."""
    known = [each for each in times if each is not None]
    return max(0.0, (snapshot.server.taken_ts - min(known)).total_seconds()) if known else None


def _page(line: GroupLine) -> tuple[str, ...]:
    return ("groups", line.group_id, line.topic)
