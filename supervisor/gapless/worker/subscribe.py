"""What the database has to know of a handler's group and topic before anybody works on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from psycopg import Connection

from gapless.consume.terms import Terms
from gapless.consume.user.handler import Handler
from gapless.errors import UsageError
from gapless.lease.member import Subscription
from gapless.log.topics import Topic, find_topic, missing

BLOCK_EVENTS_MAX = 10_000  # that one worker of a queue has in hand


def require_topics(
    conn: Connection[Any], handlers: Mapping[tuple[str, str], Handler], makes: Callable[[str], bool]
) -> None:
    """Raise UsageError for a topic that is not there and not to be made; make none yet.

    handlers: by group and topic. makes: whether a topic is to be made.
    """
    for (_, topic), handler in handlers.items():
        if not makes(topic) and find_topic(conn, topic) is None:
            raise UsageError(
                f"{handler.name}: {missing(conn, topic)}, or let it be made: "
                "gapless run --create-topics, or createTopics: true"
            )


def subscription_of(group_id: str, topic: Topic, terms: Terms) -> Subscription:
    """Return what a group has to know of a topic that a handler consumes by these terms."""
    is_queue = terms.mode == "queue"
    return Subscription(
        group_id=group_id,
        topic=topic.name,
        topic_id=topic.topic_id,
        start=terms.start,
        mode=terms.mode,
        block=min(terms.batch_size, BLOCK_EVENTS_MAX) if is_queue else None,
        max_crashes=terms.policy.crashes_max if is_queue else None,
        filter=terms.filter,
    )
