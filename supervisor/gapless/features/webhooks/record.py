"""The database's records of a webhook, for supervisors and delivering processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredWebhook:
    """A webhook as a supervisor sees it: the terms of its handler depend on it.

    partitions: of its topic. retry_delays_s: None: the program's default.
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
        """The webhook's consumer group."""
        return group_of(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A webhook as a delivering process sees it.

    secrets: their places. rate: requests a second of all workers. is_open: whether the circuit of
    any worker is open. workers: the number of processes that deliver now. now_s: the database's
    clock, in seconds since 1970.
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
        """The consumer group of their subscriptions."""
        return shared_group_of(self.topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedEndpoint:
    """A webhook of a shared group as a delivering process sees it.

    secrets: their places. rate: requests a second of all workers. is_stopped: its subscription is
    set apart. probe_due: it is stopped because its requests failed, and may be tried now.
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
