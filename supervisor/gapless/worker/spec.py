"""What a child process is told, and how it says why it ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, unique
from socket import socket
from typing import Literal, Protocol
from uuid import UUID

from gapless.consume.terms import Terms
from gapless.consume.user.handler import Handler
from gapless.keys import Partition
from gapless.settings import Settings

Order = Literal["serve", "ring", "drop", "drain"]
"""To a child: serve LEASE_NO PARTITION_ID one more, look what PARTITION_IDs have to do (ring), drop
LEASE_NO after its batch, drain all.

A worker's news to its supervisor: `ended LEASE_NO EXIT_CODE`, about one of several partitions.
"""


class Pipe(Protocol):
    """A child's ends of the pipes to its supervisor: orders come in, news go out.

    News are few, two for an order at most: the pipe never fills, so nobody waits for a supervisor.
    """

    def poll(self) -> bool: ...
    def fileno(self) -> int: ...
    def recv_bytes(self) -> bytes: ...
    def send_bytes(self, news: bytes) -> None: ...
    def close(self) -> None: ...


@unique
class ExitCode(IntEnum):
    """How the service of a partition ended; its worker's exit code when it was the last one.

    A negative exit code is the signal that killed the process.
    """

    DRAINED = 0
    CRASHED = 1
    CONNECTION_LOST = 3
    FENCED = 4
    ORPHANED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """What every child needs.

    close_fds: descriptors of the parent a child must not keep: control socket, siblings' pipes.
    slot: where on the board it says that it lives.
    """

    dsn: str
    supervisor_pid: int
    close_fds: tuple[int, ...]
    slot: int
    settings: Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec(ChildSpec):
    """What a worker needs: one handler, and the first partition; more come as orders.

    A worker serves the partitions of one group and topic: a handler that kills its process takes
    down the partitions of no other handler. former_end: how the last worker at it ended, if known.
    is_auto: its supervisor settles how many partitions it has, by how fast its handler is, and
    rings when they have something to do; it has no LISTEN of its own.
    """

    partition: Partition
    lease_no: int
    partitions_max: int
    is_auto: bool
    member_id: UUID
    handler: Handler
    terms: Terms
    former_end: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SequencerSpec(ChildSpec):
    """What a sequencer candidate needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterSpec(ChildSpec):
    """What an exporter needs.

    groups: (topic, group) that its supervisor serves. silence_s_max: so long may its loop take.
    """

    listening: socket
    groups: frozenset[tuple[str, str]]
    silence_s_max: float
