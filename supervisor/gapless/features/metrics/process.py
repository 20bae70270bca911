"""The exporter's process: it answers until it is told to drain, or its supervisor is gone."""

from __future__ import annotations

import logging
from functools import partial
from threading import Thread

from gapless.db.connect import connect
from gapless.db.listen import readable
from gapless.features.metrics.collect import found_here, found_in, write
from gapless.features.metrics.health import Answer, health, readiness
from gapless.features.metrics.look import DatabaseLook
from gapless.features.metrics.looks import Looks
from gapless.features.metrics.serve import HttpServer, Replies, Reply
from gapless.features.metrics.settings import MetricsSettings
from gapless.telemetry.meter import Meters
from gapless.telemetry.supervisor_beat import SupervisorBeat
from gapless.worker.board import Board
from gapless.worker.life import WAIT_S_MAX, is_orphan, leave, settle
from gapless.worker.spec import ExitCode, ExporterSpec, Pipe

log = logging.getLogger("gapless.supervisor")

CONNECT_S_MAX = 5


class Exporter:
    """Makes the pages of an exporter."""

    def __init__(self, spec: ExporterSpec, meters: Meters, pulse: SupervisorBeat) -> None:
        self._spec = spec
        self._meters = meters
        self._pulse = pulse
        connect_timeout_s = min(spec.settings.connect_timeout_s, CONNECT_S_MAX)
        self._looks = Looks(
            partial(connect, spec.dsn, role="exporter", connect_timeout_s=connect_timeout_s)
        )

    def pages(self) -> Replies:
        """Return the pages by their paths."""
        return {"/metrics": self.metrics, "/healthz": self.healthz, "/readyz": self.readyz}

    def metrics(self, accept: str) -> Reply:
        """Return the metrics; without the database, those counted here."""
        groups, member_id = self._spec.groups, self._pulse.member_id
        look = self._looks.newest()
        found = {**found_here(self._meters.read(), groups, member_id)}
        found["gapless_database_up"] = {(): float(isinstance(look, DatabaseLook))}
        if isinstance(look, DatabaseLook):
            found |= found_in(look, groups, member_id)
        return Reply(200, *write(found, accept))

    def healthz(self, _accept: str) -> Reply:
        """Say whether the supervisor's loop turns."""
        return _page(health(self._pulse, self._spec.silence_s_max))

    def readyz(self, _accept: str) -> Reply:
        """Say whether it is a member, and which partitions stand still."""
        spec = self._spec
        return _page(
            readiness(
                self._pulse,
                self._looks.newest(),
                groups=spec.groups,
                standstill_s=spec.settings.of(MetricsSettings).standstill_s,
            )
        )


def run_exporter(
    spec: ExporterSpec, pipe: Pipe, board: Board, shared: tuple[Meters, SupervisorBeat]
) -> None:
    """Be an exporter until told to drain; then exit the process."""
    settle(spec, "exporter")
    try:
        server = HttpServer(spec.listening, Exporter(spec, *shared).pages())
        Thread(target=server.serve_forever, name="exporter", daemon=True).start()
        while not pipe.poll() and not is_orphan(spec):
            board.rest(spec.slot)
            readable(WAIT_S_MAX, pipe.fileno())
        code = ExitCode.DRAINED
    except Exception:
        log.exception("exporter crashed")
        code = ExitCode.CRASHED
    leave(code)


def _page(answer: Answer) -> Reply:
    return Reply(answer.status, f"{answer.text}\n".encode(), "text/plain; charset=utf-8")
