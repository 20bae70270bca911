"""One child process: fork it, tell it to drain, kill it, reap it."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import multiprocess

from gapless.worker.spec import Pipe

# Fork, by name: spawn costs 18 MB and 0.4 s a worker, and would have to pickle the handlers.
_CONTEXT = multiprocess.get_context("fork")


@dataclass(slots=True)
class Child:
    """A running process and our end of its pipe; written to once, to say: drain."""

    name: str
    process: Any
    pipe: Any
    slot: int
    started_s: float = field(default_factory=monotonic)
    draining_since_s: float | None = None
    killed: bool = False

    @classmethod
    def fork(cls, name: str, slot: int, run: Callable[[Pipe], None]) -> Child:
        """Fork a process that calls run(its end of the pipe)."""
        theirs, ours = _CONTEXT.Pipe(duplex=False)

        def begin() -> None:
            ours.close()
            run(theirs)

        process = _CONTEXT.Process(target=begin, name=name)
        process.start()
        theirs.close()
        return cls(name=name, process=process, pipe=ours, slot=slot)

    @property
    def draining(self) -> bool:
        return self.draining_since_s is not None

    def drain(self) -> None:
        """Tell it to finish what it does, let go, and exit."""
        if self.draining_since_s is None:
            self.draining_since_s = monotonic()
            with contextlib.suppress(BrokenPipeError, OSError):
                self.pipe.send_bytes(b"drain")

    def kill(self) -> None:
        """End it now; the database rolls back what it had open."""
        self.killed = True
        self.process.kill()

    def descriptors(self) -> list[int]:
        """Return the parent's descriptors for this child: the pipe, and what multiprocess keeps."""
        finalizer = getattr(getattr(self.process, "_popen", None), "finalizer", None)
        kept = getattr(finalizer, "_args", (self.process.sentinel,))
        return [self.pipe.fileno(), *kept]

    def reap(self) -> int | None:
        """Return its exit code once it has ended (negative: the signal), None while it runs."""
        if self.process.is_alive():
            return None
        self.process.join()
        self.pipe.close()
        return int(self.process.exitcode or 0)

    @property
    def age_s(self) -> float:
        return monotonic() - self.started_s


def explain_exit(code: int, *, killed: bool = False) -> str:
    """Say in words how a child ended; `killed`: by us."""
    if code >= 0:
        return f"exit code {code}"
    hint = " (out of memory?)" if code == -signal.SIGKILL and not killed else ""
    with contextlib.suppress(ValueError):
        return f"signal {signal.Signals(-code).name}{hint}"
    return f"signal {-code}"
