"""Failures in the background: the log has each one once, until the work succeeds again."""

from __future__ import annotations

import logging

from gapless.db.connect import why_of

log = logging.getLogger("gapless.gateway")


class RepeatedFailure:
    """Work that is repeated; `effect`: the consequence while it fails."""

    def __init__(self, effect: str) -> None:
        self._effect = effect
        self._why: str | None = None

    def note(self, error: BaseException) -> None:
        """Log a failure, unless the last one had the same reason."""
        why = why_of(error)
        if why != self._why:
            self._why = why
            log.warning("%s: %s", self._effect, why)

    def end(self) -> None:
        """Log that the work succeeds again, if it had failed."""
        if self._why is not None:
            self._why = None
            log.info("over: %s", self._effect)
