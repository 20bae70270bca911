"""Groups that take the events that match their subscriptions (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gapless.status.section import Rank, StatusProblem, StatusSection
from gapless.status.words import age, some


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """A group with subscriptions, or one whose last subscription has gone.

    forms: the number of different match and where they have. may_expire: the number that expire
    unless they are renewed. near: the number of these in the last tenth of their time; the first
    expires in first_left_s, None: none may expire. stopped: the number of those that wait, because
    their SQL condition raised or was slow.
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
        """Group and topic, as commands take them."""
        return f"{self.group_id}/{self.topic}"


def _stopped(each: Subscribed) -> StatusProblem:
    listed = f"gapless subscriptions list {each.name}"
    some_stopped = some(each.stopped, "subscription")
    return StatusProblem(
        f"{some_stopped} of group {each.name} stopped, for their SQL conditions raise or are slow, "
        "or they are webhooks that do not answer, and their events wait",
        listed,
        page=("groups", each.group_id, each.topic),
        command=listed,
    )


def _leaving(each: Subscribed) -> StatusProblem:
    listed = f"gapless subscriptions list {each.name}"
    near = some(each.near, "subscription")
    first = age(each.first_left_s or 0.0)
    return StatusProblem(
        f"{near} of group {each.name} will be dropped unless renewed, the first in {first}",
        listed,
        page=("groups", each.group_id, each.topic),
        command=listed,
    )


def _problems(rows: Sequence[Subscribed]) -> Iterator[StatusProblem]:
    yield from (_stopped(each) for each in rows if each.stopped)
    yield from (_leaving(each) for each in rows if each.near)


SECTION = StatusSection(
    record=Subscribed,
    query=("filters", "subscribed_in_status"),
    key="subscribed",
    rank=Rank(document=60, problem=50),
    problems=_problems,
)
