"""What the database has to know of a handler's group and topic before anybody works on them."""

from __future__ import annotations

from gapless.consume.terms import Terms
from gapless.lease.member import Subscription
from gapless.log.topics import Topic

BLOCK_EVENTS_MAX = 10_000  # that one worker of a queue has in hand


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
    )
