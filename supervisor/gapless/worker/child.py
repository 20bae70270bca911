"""One child process: fork it, send it orders, read its news, kill it, reap it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import multiprocess

from gapless.db.listen import readable
from gapless.worker.spec import Order, Pipe

# Fork, by name: spawn costs 18 MB and 0.4 s a worker, and would have to pickle the handlers.
_CONTEXT = multiprocess.get_context("fork")


class _Ends:
    """The child's ends of its two pipes: orders come in, news go out."""

    def __init__(self, orders: Any, news: Any) -> None:
        self._orders = orders
        self._news = news

    def poll(self) -> bool:
        return bool(self._orders.poll())

    def fileno(self) -> int:
        return int(self._orders.fileno())

    def recv_bytes(self) -> bytes:
        return bytes(self._orders.recv_bytes())

    def send_bytes(self, news: bytes) -> None:
        self._news.send_bytes(news)

    def close(self) -> None:
        self._orders.close()
        self._news.close()


@dataclass(slots=True)
class Child:
    """A running process, our end of its pipe for orders, and our end of its pipe for news.

    Pipes, not a socket pair: a forked sibling closes them by descriptor, and none is a session.
    """

    name: str
    process: Any
    pipe: Any
    news: Any
    slot: int
    started_s: float = field(default_factory=monotonic)
    draining_since_s: float | None = None
    killed: bool = False
    why_killed: str = ""
    stopped_since_s: float | None = None

    @classmethod
    def fork(cls, name: str, slot: int, run: Callable[[Pipe], None]) -> Child:
        """Fork a process that calls run() with its ends of the pipes."""
        orders, ours = _CONTEXT.Pipe(duplex=False)
        news, theirs = _CONTEXT.Pipe(duplex=False)

        def begin() -> None:
            ours.close()
            news.close()
            run(_Ends(orders, theirs))

        process = _CONTEXT.Process(target=begin, name=name)
        try:
            process.start()
        except OSError:
            for end in (ours, news):
                end.close()
            raise
        finally:
            orders.close()
            theirs.close()
        return cls(name=name, process=process, pipe=ours, news=news, slot=slot)

    @property
    def draining(self) -> bool:
        return self.draining_since_s is not None

    def drain(self) -> None:
        """Tell the child to finish its work, let go of everything, and exit."""
        if self.draining_since_s is None:
            self.draining_since_s = monotonic()
            self.order("drain")

    def order(self, order: Order, *words: object) -> None:
        """Send an order; a child that is gone does not receive it."""
        with contextlib.suppress(BrokenPipeError, OSError):
            self.pipe.send_bytes(" ".join(map(str, (order, *words))).encode())

    def has_room(self) -> bool:
        """Tell whether an order of 4 KiB would fit, so that none waits for the child to read."""
        poll = select.poll()
        poll.register(self.pipe.fileno(), select.POLLOUT)
        return bool(poll.poll(0))

    def heard(self) -> Iterator[list[str]]:
        """Yield the words of each news item that came."""
        with contextlib.suppress(EOFError, OSError):
            while readable(0.0, self.news.fileno()):  # not poll(): six times as long
                yield self.news.recv_bytes().decode().split()

    def kill(self, why: str = "") -> None:
        """End the child now; the database rolls back its open transaction."""
        self.killed = True
        self.why_killed = why
        self.process.kill()

    def descriptors(self) -> list[int]:
        """Return the parent's descriptors for this child: pipes, and those of multiprocess."""
        finalizer = getattr(getattr(self.process, "_popen", None), "finalizer", None)
        kept = getattr(finalizer, "_args", (self.process.sentinel,))
        return [self.pipe.fileno(), self.news.fileno(), *kept]

    def stopped_ms(self) -> float:
        """Return the time since we first saw that the system had stopped the child; 0: it runs.

        Where a parent cannot ask without reaping (macOS before Python 3.13), it is 0.
        """
        if not hasattr(os, "waitid"):
            return 0.0
        how = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        found = None
        with contextlib.suppress(ChildProcessError):  # it has just ended
            found = os.waitid(os.P_PID, self.process.pid, how)
        if found is None:
            self.stopped_since_s = None
            return 0.0
        self.stopped_since_s = self.stopped_since_s or monotonic()
        return (monotonic() - self.stopped_since_s) * 1000

    def reap(self) -> int | None:
        """Return the exit code once the child has ended (negative: the signal), else None."""
        if self.process.is_alive():
            return None
        self.process.join()
        self.pipe.close()
        self.news.close()
        return int(self.process.exitcode or 0)

    def explain(self, code: int) -> str:
        """Describe the child's end, and, if we killed it, why."""
        end = explain_exit(code, killed=self.killed)
        return f"{end}: {self.why_killed}" if self.why_killed else end

    @property
    def age_s(self) -> float:
        return monotonic() - self.started_s


def explain_exit(code: int, *, killed: bool = False) -> str:
    """Describe the end of a child; `killed`: we killed it."""
    if code >= 0:
        return f"exit code {code}"
    hint = " (out of memory?)" if code == -signal.SIGKILL and not killed else ""
    with contextlib.suppress(ValueError):
        return f"signal {signal.Signals(-code).name}{hint}"
    return f"signal {-code}"
