"""The database's rows for a handler's group and topic, before any worker serves them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from psycopg import Connection

from gapless.consume.terms import Terms
from gapless.consume.user.handler import Handler
from gapless.errors import UsageError
from gapless.feature import mode_of
from gapless.lease.member import ServedTopic
from gapless.log.topics import Topic, find_topic, missing
from gapless.worker.crew import shares, workers_max
from gapless.worker.plan import Plan


def require_topics(
    conn: Connection[Any], handlers: Mapping[tuple[str, str], Handler], makes: Callable[[str], bool]
) -> None:
    """Raise UsageError for a topic that neither exists nor may be created; create none yet.

    handlers: by group and topic. makes: whether a topic may be created.
    """
    for (_, topic), handler in handlers.items():
        if not makes(topic) and find_topic(conn, topic) is None:
            raise UsageError(
                f"{handler.name}: {missing(conn, topic)}, or let it be made: "
                "gapless run --create-topics, or createTopics: true"
            )


def partitions_a_worker(conn: Connection[Any], plan: Plan) -> int:
    """Return the number of partitions of a worker, the average if that is auto.

    The number of sessions is computed with it, including those of members that join later.
    """
    settings = plan.settings
    if settings.partitions_per_worker != "auto":
        return settings.partitions_per_worker
    fast, alone = {}, 0
    for served, terms in plan.terms.items():
        topic = find_topic(conn, served[1])
        partitions = settings.total_partitions if topic is None else topic.partitions
        if terms.delivery == "at-least-once":
            alone += partitions * terms.is_ordered
        elif terms.is_ordered:
            fast[served] = partitions
    workers = alone + sum(shares(fast, workers_max()).values())
    return max(1, -(-(alone + sum(fast.values())) // max(1, workers)))


def subscription_of(group_id: str, topic: Topic, terms: Terms) -> ServedTopic:
    """Return the served topic for a group and the terms of its handler."""
    options = {} if terms.is_ordered else mode_of(terms.mode).options_of(terms)
    return ServedTopic(
        group_id=group_id,
        topic=topic.name,
        topic_id=topic.topic_id,
        start=terms.start,
        mode=terms.mode,
        filter=terms.filter,
        **options,
    )
