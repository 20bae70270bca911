"""Failures in the background: the log says each once, until it works again."""

from __future__ import annotations

import logging

from gapless.db.connect import why_of

log = logging.getLogger("gapless.gateway")


class RepeatedFailure:
    """Work that is tried again and again; `effect`: what follows while it fails."""

    def __init__(self, effect: str) -> None:
        self._effect = effect
        self._why: str | None = None

    def note(self, error: BaseException) -> None:
        """Say that it failed, unless that was for the same reason the last time."""
        why = why_of(error)
        if why != self._why:
            self._why = why
            log.warning("%s: %s", self._effect, why)

    def end(self) -> None:
        """Say that it works again, if it had failed."""
        if self._why is not None:
            self._why = None
            log.info("over: %s", self._effect)
