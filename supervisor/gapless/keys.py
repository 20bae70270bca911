"""The names of objects that cross every layer: partitions and the right to work on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition of a topic, as seen by one consumer group; is_replay: by that of a replay."""

    group_id: str
    topic: str
    topic_id: int
    partition_id: int
    is_replay: bool = field(default=False, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.group_id}/{self.topic}/{self.partition_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The right to work on a partition: the values that the fence compares on every batch (I7).

    `epoch` grows with every owner; `token` is unique to this owner, so an epoch that was given out
    twice because of a failover still names one owner.
    """

    partition: Partition
    epoch: int
    token: UUID
    params: Mapping[str, object] = field(init=False, repr=False, compare=False)
    """The parameters of every fenced query."""

    def __post_init__(self) -> None:
        fence = {"epoch": self.epoch, "token": self.token}
        object.__setattr__(self, "params", {**partition_params(self.partition), **fence})


def partition_params(partition: Partition) -> dict[str, object]:
    """Return the partition as query parameters."""
    return {
        "group_id": partition.group_id,
        "topic_id": partition.topic_id,
        "partition_id": partition.partition_id,
    }
