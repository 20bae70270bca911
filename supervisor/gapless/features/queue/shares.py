"""The order of a queue's topics: by preference, or by shares (stride scheduling). Pure."""

from __future__ import annotations

from collections.abc import Sequence


class Shares:
    """The topics of one worker, and the progress of each.

    With weights, each event of a topic moves it by 1 / weight; the topic that is furthest behind
    comes next. So topics that have events get them handled in the proportion of their weights, and
    each of them waits for a bounded number of others (no starvation). Without weights, the order is
    fixed.
    """

    def __init__(self, topics: Sequence[str], weights: Sequence[int] = ()) -> None:
        self._topics = tuple(topics)
        self._weights = dict(zip(topics, weights, strict=True)) if weights else {}
        self._moved = dict.fromkeys(topics, 0.0)
        self._now = 0.0  # the progress of the topic that was served last, before that

    def order(self) -> Sequence[str]:
        """Return the topics in the order in which to serve them."""
        if not self._weights:
            return self._topics
        # A topic that was empty for a while MUST NOT have saved up its share: it begins here.
        return sorted(self._topics, key=lambda name: max(self._moved[name], self._now))

    def served(self, topic: str, events: int) -> None:
        """Note that events of a topic were begun, or handled."""
        if events and self._weights:
            self._now = max(self._moved[topic], self._now)
            self._moved[topic] = self._now + events / self._weights[topic]
