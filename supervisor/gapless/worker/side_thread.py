"""A thread beside the sequencer, in its process, for work that must not delay offsets."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from threading import Event, Thread
from types import TracebackType
from typing import Self

import psycopg

from gapless.errors import GaplessError


class SideThread(ABC):
    """A context in which look() is called again and again; each trouble is logged once.

    name: of the thread. subject: of its logger and its messages. In seconds: first_s before the
    first look, then_s after a look, retry_s after one that failed.
    """

    def __init__(
        self, name: str, subject: str, *, first_s: float, then_s: float, retry_s: float
    ) -> None:
        self.ended = Event()
        self.log = logging.getLogger(f"gapless.{subject}")
        self._name = name
        self._subject = subject
        self._waits_s = (first_s, then_s, retry_s)

    @abstractmethod
    def look(self) -> None:
        """Do the work that is due, on a session of its own; end soon when `ended` is set."""

    def __enter__(self) -> Self:
        Thread(target=self._run, name=self._name, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # No join: the thread may be interrupted anywhere, by a kill as well.
        self.ended.set()

    def _run(self) -> None:
        trouble = ""
        wait_s, then_s, retry_s = self._waits_s
        while not self.ended.wait(wait_s):
            try:
                self.look()
            except (psycopg.Error, GaplessError) as error:
                text = " ".join(str(error).split())
                if text != trouble:
                    self.log.warning("%s: will try again: %s", self._subject, text)
                trouble, wait_s = text, retry_s
            else:
                trouble, wait_s = "", then_s
