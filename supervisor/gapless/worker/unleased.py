"""Workers that need no lease, as their supervisor sees them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol, TypeVar

from psycopg import Connection

from gapless.worker.board import Board
from gapless.worker.child import Child
from gapless.worker.spec import ChildSpec, Pipe

S = TypeVar("S", bound=ChildSpec)


class Purpose(Hashable, Protocol):
    """The purpose of a child: a partition, or all the work of a handler."""

    @property
    def group_id(self) -> str: ...
    @property
    def topic(self) -> str: ...


class Forks(Protocol):
    """The processes of a supervisor, and its board (Children)."""

    @property
    def board(self) -> Board: ...

    def fork(
        self,
        who: Purpose | None,
        name: str,
        spec: Callable[..., S],
        run: Callable[[S, Pipe, Board], None],
    ) -> Child | None:
        """Fork a child, unless its backoff has not passed or the machine refuses.

        spec: called with the input of every child (ChildSpec); run: called in the child, with the
        result.
        """

    def reap(self, child: Child, work_ms_max: float) -> int | None:
        """Return the exit code of a child that has ended; end a child that is stuck."""

    def failed(self, who: Purpose, child: Child) -> None:
        """Note that a child ended unasked: the next one of its kind may have to wait."""


class Unleased(Protocol):
    """Workers without a lease. A supervisor calls these each turn of its loop; no call waits.

    children: all of them; the supervisor counts, drains and kills them like its own. due_s
    (time.monotonic): when tell() has something to report; inf: never.
    """

    @property
    def children(self) -> Iterable[Child]: ...
    @property
    def due_s(self) -> float: ...

    def keep(self) -> None:
        """Fork the missing workers, as far as backoffs allow."""

    def watch(self) -> None:
        """Reap those that ended, and end those that are stuck."""

    def tell(self, conn: Connection[Any]) -> None:
        """Report dead workers to the database."""
