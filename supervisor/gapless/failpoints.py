"""Named points at which a crash matters. A point does nothing unless it is armed.

The environment, `GAPLESS_FAILPOINTS="step.handled=kill;release.before=stall:2.5"`, arms them, or
`arm()` in a test. Actions: `kill` (SIGKILL to this process), `stall:SECONDS`, `raise`
(RuntimeError). `name=action@N` acts only the N-th time. A test may also use a function of the name.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping

POINTS = frozenset(
    {
        # a producer's helper
        "publish.before",
        "publish.after",
        # events with a dedupe_key: after each statement
        "keyed.stored",
        # the sequencer: its turn, and its role
        "sequence.before",
        "sequence.after",
        "sequencer.active",
        "sequencer.chunked",
        "sequencer.asleep",
        "sequencer.awake",
        "sequencer.leaving",
        # events for later: before and after a promotion
        "later.before",
        "later.promoted",
        # retention
        "retention.closed",
        "retention.dropped",
        "retention.forgotten",
        "retention.moved",
        "retention.detached",
        "retention.turned",
        # a worker's step: the fast path, the careful one, units tried alone, dead-lettered units
        "step.claimed",
        "step.fetched",
        "step.handled",
        "step.committed",
        "step.next",
        "isolate.claimed",
        "isolate.tried",
        "isolate.recorded",
        "isolate.committed",
        "alone.peeked",
        "alone.recorded",
        "alone.forgotten",
        "give_up.claimed",
        "give_up.recorded",
        # units set aside
        "aside.recorded",
        "aside.claimed",
        "aside.handled",
        "aside.committed",
        # SQL conditions: claimed and not yet evaluated; stopped after an error; resumed, in ops
        "condition.claimed",
        "condition.raised",
        "condition.stopped",
        "condition.committed",
        "condition.resumed",
        # calls of at-least-once handlers
        "deliver.noted",
        "deliver.called",
        # a queue's worker: a batch, an event taken alone, calls that have ended
        "queue.taken",
        "queue.handled",
        "queue.committed",
        "queue.aside",
        "queue.called",
        # a worker's lease
        "acquire.announced",
        "acquire.locked",
        "acquire.taken",
        "acquire.installed",
        "release.before",
        "release.released",
        "release.after",
        # a supervisor as a member, and the hand-over
        "member.locked",
        "member.joined",
        "member.reattached",
        "member.evicted",
        "member.planned",
        "member.disowned",
        "member.drained",
        "member.left",
        "handover.drain",
        # writes of Spark: the sink, and pipelines
        "sink.staged",
        "sink.published",
        "sink.committed",
        "pipeline.staged",
        "pipeline.written",
        "pipeline.looked",
        "pipeline.moved",
        "pipeline.applied",
        "pipeline.done",
    }
)

Action = str | Callable[[str], object]

_armed: dict[str, Action] = {}
_hits: dict[str, int] = {}


def arm(points: Mapping[str, Action]) -> None:
    """Replace the armed points. Raises ValueError for a name that is not in POINTS."""
    unknown = set(points) - POINTS
    if unknown:
        raise ValueError(f"no such failpoint: {', '.join(sorted(unknown))}")
    _armed.clear()
    _hits.clear()
    _armed.update(points)


def arm_from(environ: Mapping[str, str]) -> None:
    """Arm the points in GAPLESS_FAILPOINTS; none without it."""
    text = environ.get("GAPLESS_FAILPOINTS", "")
    arm(dict(part.split("=", 1) for part in text.split(";") if part))


def hit(name: str) -> None:
    """Pass a point."""
    if name in _armed:
        _act(name)


def _act(name: str) -> None:
    armed = _armed[name]
    if not isinstance(armed, str):
        armed(name)
        return
    action, _, nth = armed.partition("@")
    _hits[name] = _hits.get(name, 0) + 1
    if nth and _hits[name] != int(nth):
        return
    kind, _, amount = action.partition(":")
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "stall":
        time.sleep(float(amount))
    else:
        raise RuntimeError(f"failpoint {name}")


arm_from(os.environ)
