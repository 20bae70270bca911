"""Workers that need no lease: what their books are to a supervisor, and what it does for them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol, TypeVar

from psycopg import Connection

from gapless.worker.board import Board
from gapless.worker.child import Child
from gapless.worker.spec import ChildSpec, Pipe

S = TypeVar("S", bound=ChildSpec)


class Purpose(Hashable, Protocol):
    """What a child is forked for: a partition, or all that a handler serves."""

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
        """Fork a child, unless its backoff says not yet, or the machine refuses.

        spec: is called with what every child needs (ChildSpec); run: in the child, with the result.
        """

    def reap(self, child: Child, work_ms_max: float) -> int | None:
        """Return the exit code of a child that has ended; end one that is stuck."""

    def failed(self, who: Purpose, child: Child) -> None:
        """Note that a child ended unasked: the next one of its kind may have to wait."""


class Unleased(Protocol):
    """Workers without a lease. A supervisor calls these each turn of its loop; none of them waits.

    children: all of them, which it counts, drains and kills as its own. due_s (time.monotonic):
    when tell() has something to say; inf: nothing.
    """

    @property
    def children(self) -> Iterable[Child]: ...
    @property
    def due_s(self) -> float: ...

    def keep(self) -> None:
        """Fork what is missing, as far as backoffs allow."""

    def watch(self) -> None:
        """Reap those that ended, and end those that are stuck."""

    def tell(self, conn: Connection[Any]) -> None:
        """Tell the database of those that died."""
