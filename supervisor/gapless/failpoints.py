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

_STEPS = {
    # a producer's helper
    "publish": "before after",
    # events with a dedupe_key: after each statement
    "keyed": "stored",
    # the sequencer: its turn, and its role
    "sequence": "before after",
    "sequencer": "active chunked asleep awake leaving",
    # events for later: before and after a promotion
    "later": "before promoted",
    # retention
    "retention": "closed dropped forgotten moved detached turned",
    # a worker's step: the fast path, the careful one, units tried alone, dead-lettered units
    "step": "claimed fetched handled committed next",
    "isolate": "claimed tried recorded committed",
    "alone": "peeked recorded forgotten",
    "give_up": "claimed recorded",
    # units set aside
    "aside": "recorded claimed handled committed",
    # SQL conditions: claimed and not yet evaluated; stopped after an error; resumed, in ops
    "condition": "claimed raised stopped committed resumed",
    # calls of at-least-once handlers
    "deliver": "noted called",
    # a queue's worker: a batch, an event taken alone, calls that have ended
    "queue": "taken handled committed aside called",
    # a worker's lease
    "acquire": "announced locked taken installed",
    "release": "before released after",
    # a supervisor as a member, and the hand-over
    "member": "locked joined reattached evicted planned disowned drained left",
    "handover": "drain",
    # writes of Spark: the sink, and pipelines
    "sink": "staged published committed",
    "pipeline": "staged written looked moved applied done",
    # the merge of small files: written beside the folder, complete, in its place
    "compact": "written linked swapped",
}
POINTS = frozenset(f"{of}.{step}" for of, steps in _STEPS.items() for step in steps.split())

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
