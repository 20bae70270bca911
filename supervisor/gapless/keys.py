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
    name: str = field(init=False, repr=False, compare=False)
    """The partition as people write it, `group/topic/partition`."""
    params: Mapping[str, object] = field(init=False, repr=False, compare=False)
    """The partition as the parameters of a query."""

    def __post_init__(self) -> None:
        params = {
            "group_id": self.group_id,
            "topic_id": self.topic_id,
            "partition_id": self.partition_id,
        }
        object.__setattr__(self, "params", params)
        object.__setattr__(self, "name", f"{self.group_id}/{self.topic}/{self.partition_id}")

    def __str__(self) -> str:
        return self.name


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
        object.__setattr__(self, "params", {**self.partition.params, **fence})
