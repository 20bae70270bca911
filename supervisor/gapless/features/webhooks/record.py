"""What the database says of a webhook, to a supervisor and to whoever delivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredWebhook:
    """What a supervisor has to know of a webhook: its handler's terms rest on it.

    partitions: of its topic. retry_delays_s: None: as this program has it.
    """

    name: str
    topic: str
    partitions: int
    concurrency: int
    keeps_order: bool
    rate: float | None
    retry_delays_s: Sequence[int] | None

    @property
    def group(self) -> str:
        """The consumer group that it is."""
        return group_of(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """What whoever delivers has to know of a webhook.

    secrets: where they are. rate: requests a second of all workers. is_open: whether the circuit of
    some worker is. workers: how many processes
    deliver now. now_s: the database's clock, in seconds since 1970.
    """

    url: str
    secrets: list[str]
    allow_http: bool
    rate: float | None
    is_open: bool
    workers: int
    now_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedWebhooks:
    """A topic whose webhooks share a group; partitions: of the topic."""

    topic: str
    partitions: int

    @property
    def group(self) -> str:
        """The consumer group whose subscriptions they are."""
        return shared_group_of(self.topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedEndpoint:
    """What whoever delivers has to know of a webhook that shares a group.

    secrets: where they are. rate: requests a second of all workers. is_stopped: its subscription is
    set apart. probe_due: it is, for its requests failed, and may be tried now.
    """

    name: str
    url: str
    secrets: Sequence[str]
    allow_http: bool
    rate: float | None
    is_stopped: bool
    probe_due: bool


def group_of(name: str) -> str:
    """Return the consumer group of a webhook; in SQL webhook_group()."""
    return f"webhook-{name}"


def shared_group_of(topic: str) -> str:
    """Return the consumer group that webhooks of a topic share; in SQL shared_webhook_group()."""
    return f"webhooks-{topic}"
