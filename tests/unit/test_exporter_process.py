"""The process of an exporter: its pages, and how it lives as long as its supervisor."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn
from uuid import UUID

import pytest

from gapless.features.metrics import process as module
from gapless.features.metrics.look import ChunkState, DatabaseLook
from gapless.features.metrics.process import CONNECT_S_MAX, Exporter, run_exporter
from gapless.settings import Settings
from gapless.telemetry.meter import Meters
from gapless.telemetry.pulse import Pulse
from gapless.worker.board import Board
from gapless.worker.life import WAIT_S_MAX
from gapless.worker.spec import ExitCode

ME = UUID(int=1)
SLOT, PIPE = 1, 70
_ANY: Any = None
LOOK = DatabaseLook(
    standings=[], ends=[], letters=[], pending=[], chunks=ChunkState(chunks=3, held_s=0.0),
    compacting=[], sequencer=SimpleNamespace(pid=5),  # type: ignore[arg-type]
    server=SimpleNamespace(oldest_transaction_s=None), standstill_s={},  # type: ignore[arg-type]
)  # fmt: skip


def _spec(**said: Any) -> Any:
    return SimpleNamespace(
        **{
            "dsn": "", "settings": Settings(), "groups": frozenset({("t", "g")}), "slot": SLOT,
            "silence_s_max": 60.0, "listening": "socket",
        } | said
    )  # fmt: skip


def _exporter(look: DatabaseLook | str, **said: Any) -> Exporter:
    pulse = Pulse()
    pulse.beat(ME, drains=False)
    made = Exporter(_spec(**said), Meters(0), pulse)
    made._looks = SimpleNamespace(newest=lambda: look)  # type: ignore[assignment]
    return made


@pytest.mark.parametrize(("look", "up", "chunks"), [("gone", "0.0", None), (LOOK, "1.0", "3.0")])
def test_metrics_are_what_was_counted_and_what_the_database_says(
    look: DatabaseLook | str, up: str, chunks: str | None
) -> None:
    status, body, kind = _exporter(look).pages()["/metrics"]("")
    values = dict(
        line.rsplit(" ", 1) for line in body.decode().splitlines() if not line.startswith("#")
    )
    assert (status, kind.partition(";")[0]) == (200, "text/plain")
    assert values["gapless_database_up"] == up
    assert values["gapless_member"] == "1.0"
    assert values.get("gapless_chunks") == chunks


@pytest.mark.parametrize(
    ("page", "look", "status", "text"),
    [
        ("/healthz", "gone", 200, "ok\n"),
        ("/readyz", LOOK, 200, "ready\n"),
        ("/readyz", "gone", 503, "the database does not answer: gone\n"),
    ],
)
def test_probes_are_answered_with_a_line(
    page: str, look: DatabaseLook | str, status: int, text: str
) -> None:
    answer = _exporter(look).pages()[page]("")
    assert answer == (status, text.encode(), "text/plain; charset=utf-8")


@pytest.mark.parametrize(("configured", "limit"), [(2, 2), (60, CONNECT_S_MAX)])
def test_it_connects_within_seconds(configured: int, limit: int) -> None:
    connect: Any = Exporter(
        _spec(settings=Settings(connect_timeout_s=configured)), Meters(0), Pulse()
    )._looks._connect
    assert connect.keywords == {"role": "exporter", "connect_timeout_s": limit}


class Life:
    """From its first moment to its last; it is over after so many turns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ends: str, turns: int = 2) -> None:
        self.story: list[object] = []
        self.ends, self.turns, self.threads = ends, turns, list[Any]()
        monkeypatch.setattr(module, "settle", lambda _spec, title: self.story.append(title))
        monkeypatch.setattr(module, "leave", self._leave)
        monkeypatch.setattr(module, "is_orphan", lambda _spec: self._is_over("orphan"))
        monkeypatch.setattr(module, "readable", self._wait)
        monkeypatch.setattr(module, "HttpServer", self._server)
        monkeypatch.setattr(module, "Thread", self._thread)
        self.board = Board(2)

    def _leave(self, code: ExitCode) -> NoReturn:
        self.story.append(code)
        raise SystemExit

    def _server(self, listening: object, pages: dict[str, object]) -> Any:
        if self.ends == "crash":
            raise OSError("no room")
        self.story.append((listening, *pages))
        return SimpleNamespace(serve_forever="serve")

    def _thread(self, **said: object) -> Any:
        self.threads.append(said)
        return SimpleNamespace(start=lambda: self.story.append("start"))

    def _wait(self, *said: object) -> None:
        assert self.board.silence_ms(SLOT) > 0, "it says that it lives"
        self.story.append(said)
        self.turns -= 1
        assert self.turns > -5, "it does not end"

    def _is_over(self, why: str) -> bool:
        return self.turns <= 0 and why == self.ends

    def run(self) -> list[object]:
        pipe: Any = SimpleNamespace(fileno=lambda: PIPE, poll=lambda: self._is_over("told"))
        with pytest.raises(SystemExit):
            run_exporter(_spec(), pipe, self.board, (Meters(0), Pulse()))
        return self.story


@pytest.mark.parametrize("ends", ["told", "orphan"])
def test_it_answers_until_it_is_told_to_end(monkeypatch: pytest.MonkeyPatch, ends: str) -> None:
    life = Life(monkeypatch, ends)
    pages = ("socket", "/metrics", "/healthz", "/readyz")
    waits = [(WAIT_S_MAX, PIPE)] * 2
    assert life.run() == ["exporter", pages, "start", *waits, ExitCode.DRAINED]
    (thread,) = life.threads
    assert (thread["target"], thread["daemon"]) == ("serve", True)


def test_one_that_cannot_answer_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert Life(monkeypatch, "crash").run() == ["exporter", ExitCode.CRASHED]
    assert caplog.messages == ["exporter crashed"]
