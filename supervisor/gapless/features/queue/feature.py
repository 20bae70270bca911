"""The record of queue groups: its parts for the rooms that know no feature."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.feature import Check, Feature, GroupMode, Listed, Workers


def _checks() -> Sequence[Check]:
    from gapless.features.queue.checks import queues

    return (queues,)


def _workers() -> Sequence[Workers]:
    from gapless.features.queue.pool import Pools

    return (Pools,)


def _modes() -> Sequence[GroupMode]:
    from gapless.features.queue.mode import QueueMode

    return (QueueMode(),)


QUEUE = Feature(
    commands={
        "queue": Listed(
            "take events of a queue group by hand, and report the results",
            "gapless.features.queue.commands",
        ),
    },
    checks=_checks,
    workers=_workers,
    ops=("gapless.features.queue.ops",),
    modes=_modes,
)
