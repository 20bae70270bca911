"""The housekeeper: a thread of the active sequencer's process that drops what is over now and then.

Events by retention, and groups and subscriptions that nobody uses and that expire.

On a session of its own, opened for each look: what waits there for a lock delays no offset.
"""

from __future__ import annotations

import logging
from threading import Event, Thread
from types import TracebackType
from typing import Self

import psycopg

from gapless.db.connect import connect
from gapless.errors import GaplessError
from gapless.log.expiry import expire_groups, expire_subscriptions
from gapless.log.retention import Keep, apply_retention
from gapless.worker.spec import SequencerSpec

log = logging.getLogger("gapless.retention")


class Housekeeper:
    """A context: it looks every `retention_check_s` inside of it."""

    def __init__(self, spec: SequencerSpec) -> None:
        self._spec = spec
        self._ended = Event()

    def __enter__(self) -> Self:
        Thread(target=self._run, name="housekeeper", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Nobody waits for it: it may be interrupted anywhere, by a kill as well.
        self._ended.set()

    def _run(self) -> None:
        trouble = ""
        while not self._ended.wait(self._spec.retention_check_s):
            try:
                self._look()
            except (psycopg.Error, GaplessError) as error:
                text = " ".join(str(error).split())
                if text != trouble:
                    log.warning("retention: will try again: %s", text)
                trouble = text
            else:
                trouble = ""

    def _look(self) -> None:
        spec = self._spec
        with connect(
            spec.dsn, role="housekeeper", connect_timeout_s=spec.connect_timeout_s
        ) as conn:
            keep = Keep(letters_s=spec.dead_letter_retention_s, audit_s=spec.audit_retention_s)
            for chunk in apply_retention(conn, keep):
                log.info("retention: dropped the events of %s", chunk)
            for group in expire_groups(conn, spec.retention_check_s):
                log.warning(
                    "group %s expired: nobody used it; dropped with %s units that were set aside",
                    group.group_id,
                    group.set_aside,
                )
            for each in expire_subscriptions(conn, spec.retention_check_s):
                log.warning(
                    "group %s of topic %s: %s subscriptions expired, for nobody renewed them",
                    each.group_id,
                    each.topic,
                    each.subscriptions,
                )
