"""A snapshot as a plain document for scripts, in the words of Kafka's tools (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from gapless.status.groups import GroupLine, group_lines
from gapless.status.history import History
from gapless.status.news import Happening
from gapless.status.problems import problems
from gapless.status.section import CHUNKS_IN_DOCUMENT, sections
from gapless.status.snapshot import (
    Change,
    Eviction,
    Presence,
    RecentLetter,
    Sequencing,
    Snapshot,
    Standing,
    TopicEnd,
)

_OF_A_GROUP = (
    *("topic", "mode", "partitions", "members", "unserved", "stopped", "paused", "lag", "lag_s"),
    *(
        "dead_letters",
        "dead_events",
        "waiting",
        "parked",
        "handled_per_s",
        "lag_per_s",
        "catch_up_s",
    ),
    *("workers", "open", "in_hand", "in_work", "lapsed", "finished_ahead"),
)


def to_document(snapshot: Snapshot, history: History | None = None) -> dict[str, Any]:
    """Return the snapshot as dicts, lists, strings, numbers and None, as `status --json` prints it.

    Field names are stable; fields may be added. Ages (`…_s`) are seconds, times UTC (ISO 8601),
    rates (`…_per_s`) events per second: null if a single look (history: None) cannot tell.

    taken_at     the database's clock
    database     name, server_version, started_at, sessions, commits, rollbacks,
                 oldest_transaction_s and oldest_transaction (its program)
    sequencer    state (awake, asleep, nobody), run, ran_at, run_events, pid, needs_rebase
    totals       events (ever), pending (no offset yet; null: unknown before a re-base; at most
                 10000), pending_s (of the oldest), lag, lag_s (of the oldest), dead_letters,
                 waiting, parked (units), dead_events (of the dead ones), published_per_s,
                 handled_per_s
    problems     those that a person should act on, the worst first: problem, remedy, is_bad
                 (events wait until then), page (of the gateway: its kind, and names), since_s (its
                 age; null: unknown), command (the one of the remedy; empty: none)
    topics       topic, events, pending, partition_count, partitions: [{partition, log_end_offset}],
                 also former ones
    members      member (its name), member_id, state (active, draining, silent, gone, revoked: its
                 role may take no leases any more), up_s, heartbeat_s, ttl_s, capacity, partitions
                 (it has), assigned (it should have), groups, kind (supervisor; client: of one
                 group, gone ttl_s after its last heartbeat), version (of gapless) and python, on
                 which it runs (null: a client, or unknown)
    groups       group, topic, mode (ordered, queue), partitions, members (that own some), unserved
                 (partitions without a member for them), stopped (with an error), paused, lag, lag_s
                 (of the oldest), dead_letters, dead_events, waiting, parked, handled_per_s,
                 lag_per_s (the growth of the lag), catch_up_s (until lag is 0, at this rate; null:
                 unknown, or never); of queues also workers, open, in_hand, in_work, lapsed,
                 finished_ahead
    partitions   group, topic, partition, member (at work; null: none), target (should work),
                 state (working, waiting, moving, starting, lost, unserved, pausing, paused; of
                 queues shared, unserved, paused), epoch, mode (ordered, queue), and of queues:
                 workers (of the group, on all machines), open, in_hand (reserved), in_work
                 (sessions that handle some of it now), lapsed (reserved, past the time limit),
                 finished_ahead (of an unfinished one: current_offset is below all that are not
                 finished): events, paused_at (null: it is not), pause (by whom, why),
                 current_offset (the next to be handled), log_end_offset (the next to be given), lag
                 = log_end_offset - current_offset, lag_s (null: its event is missing), error,
                 error_at, dead_letters, waiting (for another attempt), parked (behind an earlier
                 one of their key): units, at most 10000 together; dead_events, waits_for
                 (partitions to be finished first, after a change of their number), handled_per_s
    changes      group, topic, partitions_before, partitions, unfinished (partitions), events (left)
    compactions  as ops.CompactionInfo
    pipelines    name, runner (the instance that runs it, or waits to; null: none)
    foreign_locks    pid, role, holds: sessions that hold a lock of gapless without a right to it
    obstacles    kind (prepared transaction, transaction, client, row security, clock), name,
                 since_s (of a clock that was put back: by at least this much), problem, remedy:
                 things that block groups, or events for later, until a person ends them
    unrouted     topic_id (0: all further ids), events, since_s: of ids without a topic
    captures     table, problem, remedy: captured tables whose changes are not all published
    filters      group, topic, takes (the filter), and events since it was set: kept, passed,
                 unasked (kept, for the filter could not be evaluated); the last of these:
                 unasked_partition, unasked_offset, unasked_why, unasked_s (age); null: none
    subscribed   group, topic, subscriptions (0: the group takes nothing), forms (the number of
                 different match and where), may_expire, near (in the last tenth of their time),
                 stopped (by their SQL condition), first_left_s (until one ends; null: none may)
    checked      topic, types (with a JSON Schema), versions, unfit (dead units, of 10000 checked)
    expiring     group, idle_s, left_s, set_aside (units): unused groups, soon to be dropped
    attachments  table, problem, remedy: attached tables whose rows are not all published
    classic      name, problem, remedy: classic names with wrong contents or announcements
    chunks       of the log: their number
    later        scheduled (events that wait for their time, at most 10000), next_at (the first of
                 them, or of the schedules), late_s (overdue since), strays (of topics that are
                 gone), schedules, paused, stopped (texts: the schedule, and the reason)
    held         why the oldest chunk of the log stays, longer than its topics want: texts
    dead_letters the newest units: group, topic, partition, offset (the first), attempts,
                 error, at
    evictions    the newest members that their peers evicted: member, member_id, reason, at
    """
    server = snapshot.server
    return {
        "taken_at": iso(server.taken_ts),
        "database": {
            "name": server.database,
            "server_version": server.version,
            "started_at": iso(server.started_ts),
            "sessions": server.sessions,
            "commits": server.commits,
            "rollbacks": server.rollbacks,
            "oldest_transaction_s": server.oldest_transaction_s,
            "oldest_transaction": server.oldest_transaction,
        },
        "sequencer": _sequencer(snapshot.sequencer),
        "totals": {
            **asdict(snapshot.totals),
            "published_per_s": None if history is None else history.published(),
            "handled_per_s": None if history is None else history.handled(),
        },
        "problems": [asdict(each) for each in problems(snapshot)],
        "topics": _topics(snapshot),
        "members": [_member(member) for member in snapshot.members],
        "groups": [_group(line) for line in group_lines(snapshot, history)],
        "partitions": [_partition(row, history) for row in snapshot.partitions],
        "changes": [_change(change) for change in snapshot.changes],
        "foreign_locks": [asdict(each) for each in snapshot.foreign_locks],
        "obstacles": [asdict(each) for each in snapshot.obstacles],
        "unrouted": [asdict(each) for each in snapshot.unrouted],
        **_beside(snapshot),
        "held": [each.reason for each in snapshot.held],
        "dead_letters": [_letter(letter) for letter in snapshot.letters],
        "evictions": [_eviction(gone) for gone in snapshot.evictions],
    }


def _beside(snapshot: Snapshot) -> dict[str, Any]:
    """Return the sections of features, and the chunks, in their order."""
    ranked: list[tuple[int, str, object]] = [(CHUNKS_IN_DOCUMENT, "chunks", snapshot.chunks)]
    for each in sections():
        document, rows = each.document or _listed, snapshot.beside.get(each.record, ())
        ranked.append((each.rank.document, each.key, document(rows)))
    return {key: value for _, key, value in sorted(ranked, key=itemgetter(0))}


def _listed(rows: Sequence[Any]) -> object:
    """Return all fields of rows; group_id is called group."""
    return [
        {"group" if name == "group_id" else name: value for name, value in asdict(row).items()}
        for row in rows
    ]


def happening(news: Happening) -> dict[str, Any]:
    """Return a line of news: at, kind, text."""
    return {"at": iso(news.ts), "kind": news.kind, "text": news.text}


def _sequencer(sequencer: Sequencing) -> dict[str, Any]:
    return {
        "state": sequencer.state,
        "run": sequencer.run,
        "ran_at": iso(sequencer.ran_ts),
        "run_events": sequencer.events,
        "pid": sequencer.pid,
        "needs_rebase": sequencer.needs_rebase,
    }


def _letter(letter: RecentLetter) -> dict[str, Any]:
    return {
        "group": letter.group_id,
        "topic": letter.topic,
        "partition": letter.partition_id,
        "offset": letter.first_offset,
        "attempts": letter.attempts,
        "error": letter.error,
        "at": iso(letter.last_failed_ts),
    }


def _eviction(gone: Eviction) -> dict[str, Any]:
    return {
        "member": gone.name,
        "member_id": str(gone.member_id),
        "reason": gone.reason,
        "at": iso(gone.evicted_ts),
    }


def _topics(snapshot: Snapshot) -> list[dict[str, Any]]:
    """List the topics, including those that have events but were never created."""
    pending = {waiting.topic: waiting.events for waiting in snapshot.pending}
    known = {topic.topic for topic in snapshot.topics}
    unknown = [
        TopicEnd(topic=name, partitions=0, events=0, last_offsets=[])
        for name in pending
        if name not in known
    ]
    return [
        {
            "topic": topic.topic,
            "events": topic.events,
            "partition_count": topic.partitions,
            "pending": None if snapshot.totals.pending is None else pending.get(topic.topic, 0),
            "partitions": [
                {"partition": partition_id, "log_end_offset": last_offset + 1}
                for partition_id, last_offset in enumerate(topic.last_offsets)
            ],
        }
        for topic in [*snapshot.topics, *unknown]
    ]


def _member(member: Presence) -> dict[str, Any]:
    return {
        "member": member.name,
        "member_id": str(member.member_id),
        "state": member.condition,
        "up_s": member.up_s,
        "heartbeat_s": member.beat_s,
        "ttl_s": member.ttl_s,
        "capacity": member.capacity,
        "partitions": member.owned,
        "assigned": member.wanted,
        "groups": sorted({group.split("/")[0] for group in member.groups}),
        "kind": member.kind,
        "version": member.version,
        "python": member.python,
    }


def _group(line: GroupLine) -> dict[str, Any]:
    return {"group": line.group_id} | {name: getattr(line, name) for name in _OF_A_GROUP}


def _partition(row: Standing, history: History | None) -> dict[str, Any]:
    return {
        "group": row.group_id,
        "topic": row.topic,
        "partition": row.partition_id,
        "member": row.owner,
        "target": row.target,
        "state": row.state,
        "epoch": row.epoch,
        "current_offset": row.next_offset,
        "log_end_offset": row.last_offset + 1,
        "lag": row.lag,
        "lag_s": row.lag_s,
        "error": row.error,
        "error_at": None if row.error_ts is None else iso(row.error_ts),
        "dead_letters": row.dead_letters,
        "dead_events": row.dead_events,
        "waiting": row.waiting,
        "parked": row.parked,
        "waits_for": list(row.waits_for),
        "paused_at": None if row.paused_ts is None else iso(row.paused_ts),
        "pause": row.pause,
        "handled_per_s": None if history is None else history.rate(row.key),
        "mode": row.mode,
        "workers": row.workers,
        "open": row.open,
        "in_hand": row.in_hand,
        "in_work": row.in_work,
        "lapsed": row.lapsed,
        "finished_ahead": row.finished_ahead,
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "group": change.group_id,
        "topic": change.topic,
        "partitions_before": change.partitions_before,
        "partitions": change.partitions,
        "unfinished": list(change.unfinished),
        "events": change.events,
    }


def iso(ts: datetime) -> str:
    """Write a time in the format of documents."""
    return ts.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
