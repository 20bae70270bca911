"""What a child process is told, and how it says why it ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol
from uuid import UUID

from gapless.consume.handler import Handler
from gapless.consume.step import Limits
from gapless.keys import Partition


class Pipe(Protocol):
    """A child's end of the pipe to its supervisor: readable means "drain, then exit"."""

    def poll(self) -> bool: ...
    def fileno(self) -> int: ...


class ExitCode(IntEnum):
    """A worker's last word; a negative exit code is the signal that killed it."""

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
    wait_period_s: float
    connect_timeout_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec(ChildSpec):
    """What a worker needs: one partition, one handler."""

    partition: Partition
    lease_no: int
    member_id: UUID
    handler: Handler
    limits: Limits
    max_processing_ms: int
    statement_timeout_ms: int
    zombie_after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SequencerSpec(ChildSpec):
    """What a sequencer candidate needs."""

    pause_s: float
