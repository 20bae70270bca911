"""The part of the config file that declares schedules."""

from __future__ import annotations

from gapless.features.scheduled.schedules import Schedule
from gapless.settings.declared import Declared, NamedSection


def _schedule(declared: Declared) -> Schedule:
    if "topic" not in declared.fields:
        raise declared.refused("names no topic to publish into: topic: reports")
    return Schedule(**declared.record())


SCHEDULES = NamedSection(
    key="schedules",
    fields={
        "topic": "topic",
        "cron": "cron",
        "every": "every",
        "zone": "zone",
        "missed": "missed",
        "key": "key",
        "eventType": "event_type",
        "payload": "payload",
        "startsAt": "starts_at",
    },
    thing="schedule",
    such_as="cron and topic",
    make=_schedule,
)
