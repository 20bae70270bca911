"""Resources that handlers share in a process (a pool, a client), opened once, closed at its end.

    @gapless.resource
    def mailer():
        with smtplib.SMTP("mail.example") as smtp:
            yield smtp

`mailer()` is the client, in any handler; `gapless.handler(…, resources=[mailer])` opens it before
the first unit. A worker that drains closes its resources in reverse order.
"""

from __future__ import annotations

import inspect
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar, cast, overload

from gapless import loops
from gapless.errors import ResourceError, UsageError, one_line
from gapless.forked import OneProcess

log = logging.getLogger("gapless.worker")

T = TypeVar("T")

_open: list[Resource[Any]] = []  # of this process, in the order of their opening
_inherited: list[Any] = []  # opened by the process that forked this one, and kept alive here


class Resource(Generic[T]):
    """A thing that is opened once in a process; call it to get the opened thing."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._running: Any = None
        self._value: T | None = None
        self._opening = threading.RLock()
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__qualname__", "?")

    def __call__(self) -> T:
        """Return the opened thing; open it if this process has not. For any thread.

        Raises ResourceError when it cannot be opened now, UsageError for an async one that an async
        handler calls before it is open: the loop cannot wait for itself.
        """
        with self._opening:
            if self not in _open:
                if self.is_async and loops.is_inside():
                    raise UsageError(f"name it: gapless.handler(…, resources=[{self.__name__}])")
                self._value = self._opened()
                _open.append(self)
            return cast("T", self._value)

    def __repr__(self) -> str:
        return f"Resource({self.__name__})"

    @property
    def is_async(self) -> bool:
        """Whether it is opened and closed in the loop of async handlers."""
        return inspect.isasyncgenfunction(self._function)

    def _opened(self) -> T:
        self._running = self._function()
        try:
            value: T = self._next()
        except (StopIteration, StopAsyncIteration):
            raise ResourceError(f"resource {self.__name__} yields nothing") from None
        except Exception as error:
            why = f"{type(error).__name__}: {one_line(error)}"
            raise ResourceError(f"resource {self.__name__} cannot be opened: {why}") from error
        return value

    def _next(self) -> Any:
        if self.is_async:
            return loops.run(self._running.__anext__)
        with OneProcess():
            return next(self._running)

    def close(self) -> None:
        """Run the code after its `yield`. An exception in it is logged: the process ends anyway."""
        try:
            self._next()
        except (StopIteration, StopAsyncIteration):
            return
        except Exception:
            log.exception("resource %s: closing it failed", self.__name__)
            return
        log.error("resource %s yields more than once: the rest is not run", self.__name__)


@overload
def resource(function: Callable[[], AsyncIterator[T]]) -> Resource[T]: ...
@overload
def resource(function: Callable[[], Iterator[T]]) -> Resource[T]: ...
def resource(function: Callable[[], Any]) -> Resource[Any]:
    """Make a generator function, which yields once, a resource of each worker process.

    The code before its `yield` opens it; the code after it closes it, when the worker ends in good
    order. An `async def` one is opened and closed in the loop of async handlers. Call it in a
    handler to get the value that it yields.
    Raises UsageError for a function that is no generator, or needs arguments.
    """
    name = getattr(function, "__qualname__", repr(function))
    if not (inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)):
        raise UsageError(f"resource {name}: a function that yields what it opens, once")
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise UsageError(f"resource {name} is called without arguments: {error}") from None
    return Resource(function)


def open_all(wanted: Iterable[Resource[Any]]) -> None:
    """Open these, in order. Raises ResourceError at the first that cannot be opened."""
    for each in wanted:
        each()


def close_all() -> None:
    """Close the resources of this process, the last one first."""
    while _open:
        _open.pop().close()


def is_any_open() -> bool:
    """Tell whether this process has something to close."""
    return bool(_open)


def _leave_to_parent() -> None:
    """In a forked child: start with none, and close none of the parent's, even by collection."""
    _inherited.extend((each._running, each._value) for each in _open)  # noqa: SLF001
    _open.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
