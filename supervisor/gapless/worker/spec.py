"""The input of a child process, and the exit codes that say why it ended."""

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
"""Orders to a child: serve LEASE_NO PARTITION_ID; ring PARTITION_IDs that may have work; drop
LEASE_NO after its batch; drain all.

A worker's news to its supervisor: `ended LEASE_NO EXIT_CODE`, about one of several partitions.
"""


class Pipe(Protocol):
    """A child's ends of the pipes to its supervisor: orders come in, news go out.

    News items are few, at most two for an order: the pipe never fills, so no child waits to write.
    """

    def poll(self) -> bool: ...
    def fileno(self) -> int: ...
    def recv_bytes(self) -> bytes: ...
    def send_bytes(self, news: bytes) -> None: ...
    def close(self) -> None: ...


@unique
class ExitCode(IntEnum):
    """The end of the service of a partition; the worker's exit code if it was the last one.

    A negative exit code is the signal that killed the process.
    """

    DRAINED = 0
    CRASHED = 1
    CONNECTION_LOST = 3
    FENCED = 4
    ORPHANED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """The input of every child.

    close_fds: descriptors of the parent that a child must close: control socket, siblings' pipes.
    slot: its place on the board.
    """

    dsn: str
    supervisor_pid: int
    close_fds: tuple[int, ...]
    slot: int
    settings: Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec(ChildSpec):
    """The input of a worker: one handler, and the first partition; more come as orders.

    A worker serves the partitions of one group and topic: a handler that kills its process takes
    down the partitions of no other handler. former_end: the end of its last worker, if known.
    is_auto: the supervisor settles its number of partitions, by the speed of its handler, and rings
    it when they have work; it has no LISTEN of its own.
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
    """The input of a sequencer candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterSpec(ChildSpec):
    """The input of an exporter.

    groups: the supervisor's (topic, group). silence_s_max: limit for one turn of its loop.
    """

    listening: socket
    groups: frozenset[tuple[str, str]]
    silence_s_max: float
