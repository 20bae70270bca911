"""Which topic of a queue comes next: by preference, or by shares (stride scheduling). Pure."""

from __future__ import annotations

from collections.abc import Sequence


class Shares:
    """The topics of one worker, and how far each has come.

    With weights, a topic has moved on by 1 / weight for each of its events; who is behind comes
    next. So topics that have events get them handled in the proportion of their weights, and the
    least of them waits for a bounded number of others (no starvation). Without, the order is fixed.
    """

    def __init__(self, topics: Sequence[str], weights: Sequence[int] = ()) -> None:
        self._topics = tuple(topics)
        self._weights = dict(zip(topics, weights, strict=True)) if weights else {}
        self._moved = dict.fromkeys(topics, 0.0)
        self._now = 0.0  # how far the one that was served last had come before

    def order(self) -> Sequence[str]:
        """Return the topics, who is to be served first before the others."""
        if not self._weights:
            return self._topics
        # What had nothing for a while MUST NOT have saved up its share: it begins from here.
        return sorted(self._topics, key=lambda name: max(self._moved[name], self._now))

    def served(self, topic: str, events: int) -> None:
        """Note that so many events of a topic were begun, or handled."""
        if events and self._weights:
            self._now = max(self._moved[topic], self._now)
            self._moved[topic] = self._now + events / self._weights[topic]
