"""Groups that take what their subscriptions match (pure)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """A group with subscriptions, or one whose last subscription has gone.

    forms: how many different match and where they have. may_expire: how many go when nobody renews
    them. near: how many of these are in the last tenth of their time; the first goes in
    first_left_s, None: none may expire. stopped: how many wait, for their SQL condition raised or
    was slow.
    """

    group_id: str
    topic: str
    subscriptions: int
    forms: int
    may_expire: int
    near: int
    stopped: int
    first_left_s: float | None

    @property
    def name(self) -> str:
        """Both names, as commands take them."""
        return f"{self.group_id}/{self.topic}"
