"""Schedules that an application or its configuration declares, made known before it works."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from psycopg import Connection
from psycopg.errors import InsufficientPrivilege

from gapless.errors import UsageError
from gapless.features.scheduled.schedules import TOPIC, Schedule, apply_schedule
from gapless.log.topics import create_topic, find_topic

log = logging.getLogger("gapless.supervisor")


def apply_schedules(conn: Connection[Any], schedules: Iterable[Schedule]) -> list[str]:
    """Make schedules known that are not, just so; return the names of those that were changed.

    The topic of scheduled functions is made, with one partition, where it is wanted.
    Raises UsageError for one that makes no sense, or that this role may not change.
    """
    changed = []
    for each in schedules:
        if each.topic == TOPIC and find_topic(conn, TOPIC) is None:
            create_topic(conn, TOPIC, partitions=1)
        try:
            if apply_schedule(conn, each):
                changed.append(each.name)
        except InsufficientPrivilege as error:
            raise UsageError(
                f'schedule "{each.name}" is not in the database as it is declared, and role '
                f'"{conn.info.user}" may not change it: grant it gapless_operator, or let an '
                "operator run gapless init or gapless schedule add"
            ) from error
    for name in changed:
        log.info("supervisor: schedule %s is as declared now", name)
    return changed
