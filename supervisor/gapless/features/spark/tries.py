"""Reads that are done again: cut by a server that restarts, or by a standby's conflict."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import sleep

from gapless.errors import ConnectError, GaplessError

log = logging.getLogger("gapless.spark")

# Between tries: a conflict is over at once, a server's restart takes seconds.
PAUSES_S = (0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 8.0)


class CutError(GaplessError):
    """The server ended a read, or had not all of it yet; done again it may succeed."""


class Tries:
    """The tries of a task's read.

    is_last_word: the server has replayed the range, so what it lacks now is missing from the log.
    """

    def __init__(self, wait_for_replay: Callable[[], None]) -> None:
        self._wait_for_replay = wait_for_replay
        self._pauses = iter(PAUSES_S)
        self.is_last_word = False

    def again(self, error: GaplessError) -> None:
        """Return when the read may be done again. Raises the last error when there were enough."""
        while True:
            pause_s = next(self._pauses, None)
            if pause_s is None:
                raise error
            log.warning("%s: read again", error)
            sleep(pause_s)
            try:
                self._wait_for_replay()
            except (CutError, ConnectError) as next_error:
                error = next_error
                continue
            self.is_last_word = True
            return


def with_remedy(line: str) -> str:
    """Return the text of an error of the server, with the remedy if a standby cancelled a read."""
    if "conflict with recovery" not in line:
        return line
    return (
        f"{line}; on the standby, set hot_standby_feedback = on, or a longer "
        "max_standby_streaming_delay"
    )
