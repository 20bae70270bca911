"""Named points where a crash matters. A point does nothing unless it is armed.

Armed by the environment, `GAPLESS_FAILPOINTS="step.handled=kill;release.before=stall:2.5"`, or by
`arm()` in a test. Actions: `kill` (SIGKILL to this process), `stall:SECONDS`, `raise`
(RuntimeError). `name=action@N` acts on the N-th time only.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping

POINTS = frozenset(
    {
        "publish.before",
        "publish.after",
        "sequence.before",
        "sequence.after",
        "step.claimed",
        "step.fetched",
        "step.handled",
        "step.finished",
        "step.committed",
        "acquire.locked",
        "acquire.taken",
        "acquire.installed",
        "release.before",
        "release.after",
    }
)

_armed: dict[str, str] = {}
_hits: dict[str, int] = {}


def arm(points: Mapping[str, str]) -> None:
    """Replace what is armed. Raises ValueError for a name that is not in POINTS."""
    unknown = set(points) - POINTS
    if unknown:
        raise ValueError(f"no such failpoint: {', '.join(sorted(unknown))}")
    _armed.clear()
    _hits.clear()
    _armed.update(points)


def arm_from(environ: Mapping[str, str]) -> None:
    """Arm what GAPLESS_FAILPOINTS says; nothing without it."""
    text = environ.get("GAPLESS_FAILPOINTS", "")
    arm(dict(part.split("=", 1) for part in text.split(";") if part))


def hit(name: str) -> None:
    """Pass a point."""
    if name in _armed:
        _act(name)


def _act(name: str) -> None:
    action, _, nth = _armed[name].partition("@")
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
