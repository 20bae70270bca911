"""Checks of whether the log moves: sequencer, chunks, members, partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gapless.db.queries import query
from gapless.db.schema import here, init_command
from gapless.features.retention.chunks import Chunk
from gapless.log.sequence import chunk_triggers
from gapless.ops.doctor.finding import Finding, Patient, fail, few, ok, warning
from gapless.ops.rows import rows
from gapless.ops.text import duration, plain, quantity, size_text
from gapless.status.problems import END_OF_UPGRADE, mixed_versions
from gapless.status.snapshot import COUNT_MAX, Presence, Snapshot, Standing
from gapless.status.unsequenced import remedy_of_stuck

_ALL_FAILS = "learn/failures.md, When everything fails"
_STILL_S = 5.0  # an event may be without an offset for this time
_TURN_S_MAX = 3600.0  # the keys of publishers may stay this much longer than wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunks:
    """The chunks of the log. room: ids that they still have; further ids go to the default chunk.

    held_by: the pid of a session that has the default chunk, for `held_s`: no chunk can be made.
    default_bytes: the size of the default chunk, with the reason why it is not empty, and the pid
    of the transaction that this waits for.
    """

    chunk_events: int
    chunks_ahead: int
    room: int
    default_bytes: int | None
    default_reason: str | None
    default_pid: int | None
    held_by: int | None
    held_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dedupe:
    """Keys of publishers: their bytes, and for how long a slot is left, or overdue to empty."""

    bytes: int
    closing_s: float | None
    overdue_s: float | None


def wake_trigger(patient: Patient) -> Iterator[Finding]:
    """Check that publishers wake the sequencer."""
    row = patient.conn.execute(query("doctor", "wake_trigger")).fetchone()
    if row is None or row[0] not in {"O", "A"}:
        yield warning(
            "wake-trigger",
            "the trigger wake_sequencer on outbox_message_t is missing or off: events wait for "
            "the poll",
            here("alter table gapless.outbox_message_t enable trigger wake_sequencer")
            + f", or {init_command()}",
        )
    else:
        yield ok("wake-trigger", "publishers wake the sequencer")


def leases(patient: Patient) -> Iterator[Finding]:
    """Check that members, leases and fences agree."""
    found = patient.conn.execute(query("doctor", "check_leases")).fetchall()
    bug = "keep the database as it is, and report this: it is a bug"
    yield from few(
        (
            fail("leases", f"{plain(place)}: {plain(problem)} ({invariant})", bug)
            for invariant, place, problem in found
        ),
        bug,
    )
    if not found:
        yield ok("leases", "members, leases and fences agree")


def chunks(patient: Patient) -> Iterator[Finding]:
    """Check that the next events have a chunk to go to."""
    found = rows(patient.conn, Chunks, query("doctor", "chunks"))[0]
    ahead = max(found.room, 0) / found.chunk_events
    text = f"room for {max(found.room, 0):,} more events in chunks of {found.chunk_events:,}"
    if found.room <= 0 or ahead < found.chunks_ahead / 2:
        remedy = f"start a supervisor, or run {init_command()}: both make chunks"
        if found.held_by is not None:
            since = "" if found.held_s is None else f", which is open for {duration(found.held_s)}"
            text += (
                f"; pid {found.held_by} has read the default chunk, or published into it, in a "
                f"transaction{since}: none can be made until it ends"
            )
            remedy = f"have it commit, or select pg_terminate_backend({found.held_by})"
        yield warning("chunks", "; ".join([text, *chunk_triggers(patient.conn)]), remedy)
    else:
        yield ok("chunks", text)
    if found.default_bytes is not None:
        text = f"outbox_message_default has {size_text(found.default_bytes)}, which is read like "
        remedy = "start a supervisor (gapless run), or gapless retention --apply: both move it"
        if found.default_pid is not None:
            remedy = f"have it commit, or select pg_terminate_backend({found.default_pid})"
        yield warning("default-chunk", f"{text}all else; {found.default_reason}", remedy)
    else:
        yield ok("default-chunk", "is empty")


def restored(patient: Patient) -> Iterator[Finding]:
    """Check that a restore left no rows out, and met no others; else all other checks mislead."""
    is_overlaid, lost = patient.conn.execute(query("doctor", "restored")).fetchall()[0]
    if is_overlaid or lost is not None:
        how = (
            "over the rows that gapless init had made" if is_overlaid else f"without rows of {lost}"
        )
        yield fail(
            "restored",
            f"the log was restored {how}: events would be lost, or handled again",
            "gapless uninstall and restore the schema whole; or truncate its tables, then "
            "pg_restore --data-only --disable-triggers",
        )
    else:
        yield ok("restored", "no table lacks rows that another one needs")


def sequencer(patient: Patient) -> Iterator[Finding]:
    """Check that a session gives offsets, and that its memory is of this cluster."""
    look = patient.look
    sequencing = look.sequencer
    pending = look.totals.pending
    at_least = "at least " if pending == COUNT_MAX else ""
    waiting = f"; {at_least}{quantity(pending, 'event')} without an offset yet" if pending else ""
    if pending and look.totals.pending_s > _STILL_S:
        who = "no session is the sequencer"
        remedy = "start a supervisor: gapless run"
        if sequencing.pid is not None:
            who = f"pid {sequencing.pid} is the sequencer, and gets nowhere"
            remedy = remedy_of_stuck(sequencing.pid)
        text = f"{who}{waiting}, the oldest for {duration(look.totals.pending_s)}"
        yield fail("sequencer", text, remedy)
    elif sequencing.pid is None:
        text = f"no session is the sequencer{waiting}"
        yield warning("sequencer", text, "start a supervisor: gapless run")
    else:
        text = f"pid {sequencing.pid} is the sequencer, {sequencing.state}, run {sequencing.run}"
        yield ok("sequencer", text + waiting)
    if sequencing.needs_rebase:
        yield warning(
            "re-base",
            "the log was restored from another cluster: the next run of the sequencer looks for "
            "events without offsets among all, once",
            "publish only after the restore is complete",
        )
    else:
        yield ok("re-base", "the sequencer's memory is of this cluster")


def foreign_locks(patient: Patient) -> Iterator[Finding]:
    """Check that no session holds a lock of gapless without a right to it."""
    found = patient.look.foreign_locks
    held = (fail("foreign_locks", plain(str(each)), each.remedy) for each in found)
    yield from few(held, "gapless status shows all")
    if not found:
        yield ok("foreign_locks", "no session holds a lock of gapless without a right to it")


def obstacles(patient: Patient) -> Iterator[Finding]:
    """Check that no transaction, and no client that never polls, holds up a group or due units."""
    found = patient.look.obstacles
    told = (
        (warning if each.kind == "clock" else fail)(
            "obstacles", plain(each.problem), plain(each.remedy)
        )
        for each in found
    )
    yield from few(told, "gapless status shows all")
    if not found:
        yield ok("obstacles", "no session keeps a group or due events from continuing")


def unrouted(patient: Patient) -> Iterator[Finding]:
    """Check that producers use no topic id that has no topic."""
    found = patient.look.unrouted
    remedy = "gapless topics discard gives such events up"
    ids = (warning("unrouted", str(each), remedy) for each in found)
    yield from few(ids, "gapless topics unrouted shows all")
    if not found:
        yield ok("unrouted", "all events have a topic")


def members(patient: Patient) -> Iterator[Finding]:
    """Check that the supervisors are alive."""
    found = patient.look.members
    ill = [finding for each in found for finding in _of_member(each)]
    yield from few(ill, "gapless status shows all")
    if not found:
        yield warning("members", "no supervisor runs", "start one: gapless run")
    elif (mixed := mixed_versions(found)) is not None:
        yield warning("members", plain(mixed[0]), END_OF_UPGRADE)
    elif not ill:
        yield ok("members", f"{quantity(len(found), 'supervisor')} run")


def _of_member(each: Presence) -> Iterator[Finding]:
    if each.revoked_role is not None:
        yield fail("members", plain(each.revoked), plain(each.remedy))
    if each.condition in {"gone", "silent"}:
        text = f"not heard of: {plain(each.name)} ({each.condition})"
        yield warning("members", text, "its peers evict it")


def partitions(patient: Patient) -> Iterator[Finding]:
    """Check that all partitions continue; queues() tells of a queue that has stopped for good."""
    look = patient.look
    ordered = [standing for standing in look.partitions if standing.mode == "ordered"]
    stopped = [each for each in ordered if not _is_tried(each) and each.error is not None]
    ill = stopped + [each for each in look.partitions if _is_tried(each)]
    yield from few(map(_stopped, ill), "gapless status shows all")
    yield from _paused(look)
    leased = [each for each in ordered if not each.start]
    unserved = sum(each.is_troubled and each.error is None for each in leased)
    if look.members and unserved > 0:
        text = f"{quantity(unserved, 'partition')} without a worker"
        yield warning("partitions", text, "raise capacity or start another supervisor")
    if not ill:
        yield ok("partitions", f"{quantity(len(ordered), 'partition')}, none has stopped")


def _stopped(standing: Standing) -> Finding:
    level = warning if _is_tried(standing) else fail
    text = f"{standing.name} does not continue: {plain(standing.error or '')}"
    page = _ALL_FAILS if "slowed down" in text else "run/operations.md, When a partition stops"
    remedy = f"{standing.remedy}; " if standing.remedy else ""
    return level("partitions", text, f"{remedy}see docs/{page}")


def _is_tried(standing: Standing) -> bool:
    return (standing.error or "").startswith("retrying")


def _paused(look: Snapshot) -> Iterator[Finding]:
    """Report the pauses that people made, so that no other cause is looked for."""
    paused = [standing for standing in look.partitions if standing.paused_ts is not None]
    for group in sorted({standing.group_id for standing in paused}):
        own = [standing for standing in paused if standing.group_id == group]
        why = plain(own[0].pause or "")
        text = f"{quantity(len(own), 'partition')} of group {plain(group)} paused by {why}"
        yield warning("paused", text, f"gapless resume {plain(group)} lets it continue")


def retention(patient: Patient) -> Iterator[Finding]:
    """Check that nothing holds events that are older than their topic keeps."""
    found = rows(patient.conn, Chunk, query("retention", "retention_plan"))
    held = [chunk for chunk in found if chunk.is_behind]
    if held:
        why = "; ".join(map(plain, held[0].reasons))
        yield warning(
            "retention",
            f"{quantity(len(held), 'chunk')} of the log are held back: {why}",
            "start what handles them, or see gapless retention; docs/run/operations.md, Retention",
        )
    else:
        yield ok("retention", f"{quantity(len(found), 'chunk')} of the log, none is held back")


def dedupe(patient: Patient) -> Iterator[Finding]:
    """Check that keys of publishers that are too old are dropped."""
    found = rows(patient.conn, Dedupe, query("doctor", "dedupe"))[0]
    text = f"dedupe keys take {found.bytes / 1024**2:,.1f} MB"
    if (found.closing_s or 0.0) > _TURN_S_MAX:
        yield warning(
            "dedupe",
            f"{text}; new ones are stored twice, for a transaction is open since "
            f"{found.closing_s:,.0f} s ago, or no supervisor does the housekeeping",
            "end that transaction (see horizon), and start a supervisor: gapless run",
        )
    elif (found.overdue_s or 0.0) > _TURN_S_MAX:
        yield warning(
            "dedupe",
            f"{text}; some should have been dropped {found.overdue_s:,.0f} s ago",
            "start a supervisor (gapless run), or gapless retention --apply",
        )
    else:
        yield ok("dedupe", text)
