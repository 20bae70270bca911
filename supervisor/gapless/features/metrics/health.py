"""The answers of /healthz and /readyz (pure): whether the process is healthy, and makes progress.

A partition that stands still is named and does not make the answer "no": a restart of the process
does not help against it, and an alert tells people.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from gapless.features.metrics.look import DatabaseLook
from gapless.telemetry.supervisor_beat import SupervisorBeat

OK = 200
UNAVAILABLE = 503
NAMED_MAX = 20  # partitions


class Answer(NamedTuple):
    """An HTTP status, and lines for people."""

    status: int
    text: str


def health(pulse: SupervisorBeat, silence_s_max: float) -> Answer:
    """Say whether the supervisor's loop turns."""
    silence_s = pulse.silence_s
    if silence_s <= silence_s_max:
        return Answer(OK, "ok")
    return Answer(UNAVAILABLE, f"the supervisor's loop has not turned for {silence_s:.1f} s")


def readiness(
    pulse: SupervisorBeat,
    look: DatabaseLook | str,
    *,
    groups: Collection[tuple[str, str]],
    standstill_s: float,
) -> Answer:
    """Say whether it is a member and the database answers, and which partitions stand still.

    groups: its (topic, group) pairs. look: a look at the database, or why there is none.
    """
    if pulse.member_id is None:
        return Answer(UNAVAILABLE, "not a member of its groups, or not connected")
    if pulse.is_draining:
        return Answer(UNAVAILABLE, "draining: it was told to end")
    if isinstance(look, str):
        return Answer(UNAVAILABLE, f"the database does not answer: {look}")
    standing = [
        (each, seconds)
        for each in look.standings
        if (each.topic, each.group_id) in groups
        and (seconds := look.standstill_s[each.key]) >= standstill_s
    ]
    lines = [
        f"standstill {each.group_id}/{each.topic}/{each.partition_id}@{each.next_offset}: "
        f"{each.lag} events, none passed for {seconds:.0f} s"
        + (f": {each.error}" if each.error else "")
        for each, seconds in standing[:NAMED_MAX]
    ]
    if len(standing) > NAMED_MAX:
        lines.append(f"standstill of {len(standing) - NAMED_MAX} more partitions")
    return Answer(OK, "\n".join(["ready", *lines]))
