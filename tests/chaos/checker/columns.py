"""I1, I3: every column of an event is what was published, and what each handler was given.

Not only the key and the payload: also headers, host_id, user_id, ids, when it was inserted, what it came
of. What a producer left out is not there, or is what is promised for it.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from chaos.checker.attempts import Attempt
from chaos.checker.facts import At, Facts
from chaos.checker.rows import Placed
from chaos.checker.violation import Violation, about, of_group
from chaos.history import Sent
from gapless.log.event import transaction_uuid

TOLERANCE_S = 1.0  # of one clock against the other
Seen = dict[str, Any]


def find(facts: Facts) -> Iterator[Violation]:
    yield from _stored(facts)
    yield from _inserted(facts)
    for effect in facts.effects:
        at = (effect.group_id, effect.topic, effect.partition_id)
        yield from _given(facts, at, effect.c_offset, [effect.seen], "effect")
    for (at, offset), calls in facts.calls_of.items():
        for call in calls:
            yield from _given(facts, at, offset, call.seen or [None], "call")


def _stored(facts: Facts) -> Iterator[Violation]:
    """The log has what was published, by a producer or by a handler of the chain."""
    for event in (event for events in facts.log.values() for event in events):
        sent = facts.sent_as(event.tag)
        if sent is None or event.seen is None:
            continue
        attempt, _ = facts.sent.get(sent.tag, (None, None))
        other = different(wanted(sent, event, attempt), event.seen)
        if other:
            yield about(event, "I1", "column changed", f"{other}: not what was published")
        if attempt is not None and attempt.xid not in (None, event.xid):
            text = f"xid: it was inserted by {attempt.xid}, and says {event.xid}"
            yield about(event, "I1", "column changed", text)


def wanted(sent: Sent, event: Placed, attempt: Attempt | None) -> Seen:
    """Return the columns that are known of an event; of an attempt it is all but its id and time."""
    known: Seen = {
        "headers": json.loads(sent.headers),
        "host_id": sent.host_id,
        "user_id": sent.user_id,
    }
    if sent.digest:
        known["payload"] = sent.digest
    if attempt is not None:  # checker/chains.py looks at those of handlers
        id_ = sent.transaction_id or str(transaction_uuid(int(event.xid or 0), event.timeline or 1))
        known |= {"cause": None, "correlation": id_, "transaction_id": id_}
    return known


def _inserted(facts: Facts) -> Iterator[Violation]:
    """created_ts is a time between the attempt's beginning and its end; later events have later ones."""
    for attempt in facts.attempts.values():
        found = [
            facts.by_tag[sent.tag][-1] for sent in attempt.invoke.events if sent.tag in facts.by_tag
        ]
        times = [(event, event.seen["created_us"] / 1e6) for event in found if event.seen]
        began_s = (attempt.invoke.at_ns + facts.clock_ns) / 1e9 - TOLERANCE_S
        ended_s = float("inf")
        if attempt.committed_ns is not None:
            ended_s = (attempt.committed_ns + facts.clock_ns) / 1e9 + TOLERANCE_S
        for event, at_s in times:
            if not began_s <= at_s <= ended_s:
                text = f"created_ts: {at_s - began_s:.3f} s after its transaction began"
                yield about(event, "I1", "created at another time", text)
        for (_, before_s), (event, at_s) in pairwise(times):
            if at_s < before_s:
                text = f"created_ts: {before_s - at_s:.6f} s before that of the one before it"
                yield about(event, "I4", "created out of order", text)


def _given(
    facts: Facts, at: At, first: int, seen: Sequence[Seen | None], by: str
) -> Iterator[Violation]:
    """What a handler was given from this offset on is what the log has there."""
    for offset, each in enumerate(seen, first):
        event = facts.placed_at.get((at[1], at[2], offset))
        if event is None or event.seen is None:
            continue  # others tell that
        other = different(event.seen, each or {})
        if other:
            text = f"{other}: not what the log has, in an {by}"
            yield of_group(at, offset, "I3", "column seen otherwise", text)


def different(wanted: Seen, found: Seen) -> str:
    """Return the names of the columns that are not as they should be; "" if all are."""
    nothing = object()
    return ", ".join(name for name, value in wanted.items() if found.get(name, nothing) != value)
