"""A supervisor without its database: it logs the reason now and then, and tries ever less often."""

from __future__ import annotations

import logging

from gapless.db.connect import is_revoked, why_of
from gapless.errors import limit_met, one_line
from gapless.worker.retries import Retries

log = logging.getLogger("gapless.supervisor")

_RECONNECT_S_MAX = 1.0
_LOG_EVERY = 20  # attempts to reconnect


class CutOff:
    """Counts the attempts since the last one that succeeded."""

    def __init__(self) -> None:
        self.is_revoked = False  # our grants were revoked, and the log said so
        self._retries = Retries(_RECONNECT_S_MAX)

    def failed(self, error: Exception) -> float:
        """Note an attempt that failed; return the seconds to wait before the next."""
        if is_revoked(error):
            if not self.is_revoked:
                log.error("supervisor: waits until it may again: %s", why_of(error))
            self.is_revoked = True
        elif self._retries.failures % _LOG_EVERY == 0:
            why = limit_met(error) or f"connection lost, will be back: {one_line(error)}"
            log.warning("supervisor: %s", why)
        return self._retries.failed()

    def ended(self) -> None:
        """Note an attempt that succeeded."""
        self._retries.succeeded()
        if self.is_revoked:
            log.warning("supervisor: it may again")
        self.is_revoked = False
