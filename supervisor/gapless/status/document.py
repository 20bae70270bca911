"""A snapshot as a plain document for scripts, in the words that Kafka's tools use (pure)."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from gapless.status.history import History
from gapless.status.news import Happening
from gapless.status.snapshot import (
    Change,
    Eviction,
    Presence,
    RecentLetter,
    Snapshot,
    Standing,
    TopicEnd,
)
from gapless.status.waiting import Later


def to_stream_document(snapshot: Snapshot, history: History) -> dict[str, Any]:
    """Return what to_document() does, with what only several looks can tell.

    totals       published_per_s and handled_per_s, too (null at the first look)
    partitions   handled_per_s, too
    """
    document = to_document(snapshot)
    document["totals"] |= {
        "published_per_s": history.published(),
        "handled_per_s": history.handled(),
    }
    for row, standing in zip(document["partitions"], snapshot.partitions, strict=True):
        row["handled_per_s"] = history.rate(standing.key)
    return document


def to_document(snapshot: Snapshot) -> dict[str, Any]:
    """Return the snapshot as dicts, lists, strings, numbers and None: what `status --json` prints.

    Field names are stable; fields may be added. Ages (`…_s`) are seconds, times UTC (ISO 8601).

    taken_at     the database's clock
    database     name, server_version, started_at, sessions, commits, rollbacks,
                 oldest_transaction_s and oldest_transaction (its program)
    sequencer    state (awake, asleep, nobody), run, ran_at, run_events, pid, needs_rebase
    totals       events (ever), pending (no offset yet; null: unknown before a re-base; at most
                 10000), pending_s (of the oldest), lag, lag_s (of the oldest), dead_letters
    topics       topic, events, pending, partition_count, partitions: [{partition, log_end_offset}],
                 also those that it had before
    members      member (its name), member_id, state (active, draining, silent, gone, revoked: its
                 role may take no leases any more), up_s, heartbeat_s, ttl_s, capacity,
                 partitions (it has), assigned (it should have), groups
    groups       group, topic, partitions, lag, lag_s, dead_letters
    partitions   group, topic, partition, member (who works; null: nobody), target (who should),
                 state (working, waiting, moving, starting, lost, unserved, pausing, paused), epoch,
                 paused_at (null: it is not), pause (by whom, why),
                 current_offset (the next to be handled), log_end_offset (the next to be given),
                 lag = log_end_offset - current_offset, lag_s (null: its event is missing),
                 error, error_at, dead_letters, waiting (for another attempt), parked (behind an
                 earlier one of their key): events, at most 10000 together,
                 waits_for (partitions to be finished first, after a change of their number)
    changes      group, topic, partitions_before, partitions, unfinished (partitions), events (left)
    squatters    pid, role, holds: sessions that hold a lock of gapless and have no right to it
    unrouted     topic_id (0: all further ids), events, since_s: of ids that nobody made, which
                 have no offset
    later        scheduled (events that wait for their time, at most 10000), next_at (the first of
                 them, or of the schedules), late_s (overdue since), strays (of topics that are
                 gone), schedules, paused, stopped (texts: which, and why)
    held         for whom the oldest chunk of the log stays, longer than its topics want: texts
    dead_letters the newest: group, topic, partition, offset, error, at
    evictions    the newest members that their peers gave up: member, member_id, reason, at
    """
    server, sequencer = snapshot.server, snapshot.sequencer
    return {
        "taken_at": _iso(server.taken_ts),
        "database": {
            "name": server.database,
            "server_version": server.version,
            "started_at": _iso(server.started_ts),
            "sessions": server.sessions,
            "commits": server.commits,
            "rollbacks": server.rollbacks,
            "oldest_transaction_s": server.oldest_transaction_s,
            "oldest_transaction": server.oldest_transaction,
        },
        "sequencer": {
            "state": sequencer.state,
            "run": sequencer.run,
            "ran_at": _iso(sequencer.ran_ts),
            "run_events": sequencer.events,
            "pid": sequencer.pid,
            "needs_rebase": sequencer.needs_rebase,
        },
        "totals": {
            "events": snapshot.events,
            "pending": snapshot.pending_events,
            "pending_s": snapshot.pending_s,
            "lag": snapshot.lag,
            "lag_s": snapshot.lag_s,
            "dead_letters": snapshot.dead_letters,
            "waiting": snapshot.waiting,
            "parked": snapshot.parked,
        },
        "topics": _topics(snapshot),
        "members": [_member(member) for member in snapshot.members],
        "groups": _groups(snapshot),
        "partitions": [_partition(row) for row in snapshot.partitions],
        "changes": [_change(change) for change in snapshot.changes],
        "squatters": [asdict(each) for each in snapshot.squatters],
        "unrouted": [asdict(each) for each in snapshot.unrouted],
        "later": _later(snapshot.later),
        "held": [each.reason for each in snapshot.held],
        "dead_letters": [_letter(letter) for letter in snapshot.letters],
        "evictions": [_eviction(gone) for gone in snapshot.evictions],
    }


def happening(news: Happening) -> dict[str, Any]:
    """Return a line of news: at, kind, text."""
    return {"at": _iso(news.ts), "kind": news.kind, "text": news.text}


def _later(later: Later) -> dict[str, Any]:
    found = {**asdict(later), "stopped": list(later.stopped)}
    next_ts = found.pop("next_ts")
    return {**found, "next_at": None if next_ts is None else _iso(next_ts)}


def _letter(letter: RecentLetter) -> dict[str, Any]:
    return {
        "group": letter.group_id,
        "topic": letter.topic,
        "partition": letter.partition_id,
        "offset": letter.c_offset,
        "error": letter.error,
        "at": _iso(letter.created_dt),
    }


def _eviction(gone: Eviction) -> dict[str, Any]:
    return {
        "member": gone.name,
        "member_id": str(gone.member_id),
        "reason": gone.reason,
        "at": _iso(gone.evicted_ts),
    }


def _topics(snapshot: Snapshot) -> list[dict[str, Any]]:
    """List the topics; one that events were published to, but nobody created yet, too."""
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
            "pending": None if snapshot.pending_events is None else pending.get(topic.topic, 0),
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
    }


def _groups(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Add the partitions of each group and topic up."""
    names = sorted({(row.group_id, row.topic) for row in snapshot.partitions})
    rows = {
        name: [row for row in snapshot.partitions if (row.group_id, row.topic) == name]
        for name in names
    }
    return [
        {
            "group": group_id,
            "topic": topic,
            "partitions": len(own),
            "lag": sum(row.lag for row in own),
            "lag_s": max(row.lag_s or 0.0 for row in own),
            "dead_letters": sum(row.dead_letters for row in own),
        }
        for (group_id, topic), own in rows.items()
    ]


def _partition(row: Standing) -> dict[str, Any]:
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
        "error_at": None if row.error_ts is None else _iso(row.error_ts),
        "dead_letters": row.dead_letters,
        "waiting": row.waiting,
        "parked": row.parked,
        "waits_for": list(row.waits_for),
        "paused_at": None if row.paused_ts is None else _iso(row.paused_ts),
        "pause": row.pause,
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


def _iso(ts: datetime) -> str:
    return ts.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
