"""How workers begin: as good children, on a guarded session, with what their handlers need open."""

from types import SimpleNamespace
from typing import Any

import pytest

from gapless.consume.verdict.policy import DEAD_LETTER
from gapless.features.queue import worker as queue_worker
from gapless.keys import Partition
from gapless.settings import Settings
from gapless.worker import loop
from gapless.worker.session_loop import GUARD_MORE_MS, Opening
from gapless.worker.spec import ExitCode

TERMS = SimpleNamespace(policy=DEAD_LETTER)
HERE = Partition(group_id="g", topic="t", topic_id=1, partition_id=3)


class Start:
    """A worker of either kind that begins, and what it did."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
        self.story: list[object] = []
        self.connects: list[object] = []
        self.hosts: list[Any] = []
        self.handler: Any = SimpleNamespace(
            habits=SimpleNamespace(interruptible=True), resources=["pool"]
        )
        self.spec: Any = SimpleNamespace(
            dsn="dsn", group_id="g", partition=HERE, partitions_max=1, is_auto=False, lease_no=7, slot=5,
            settings=Settings(
                connect_timeout_s=4, max_processing_ms=1000, statement_timeout_ms=300, wait_period_ms=500
            ),
            handler=self.handler, worker="w", terms=TERMS,
        )  # fmt: skip
        self.pipe: Any = SimpleNamespace(close=lambda: "closed")
        self.board: Any = SimpleNamespace(
            hold=lambda *said: self.story.append(("hold", *said)), meet=lambda *_: None
        )
        say = self.story.append
        monkeypatch.setattr(module, "settle", lambda spec, title: say((spec is self.spec, title)))
        monkeypatch.setattr(module, "disown_offspring", lambda name, close: say((name, close())))
        monkeypatch.setattr(module, "live", self._live)
        monkeypatch.setattr(module, "connect", self._connect)
        monkeypatch.setattr(module, "open_all", say)
        monkeypatch.setattr(module, "session_loop", self._loop)

    def _live(self, name: str, work: Any) -> None:
        self.story.append((name, work()))

    def _connect(self, *said: object, **more: object) -> Any:
        self.connects.append((*said, more))
        return SimpleNamespace(execute=lambda _query, params: self.story.append(params))

    def _loop(self, host: Any, opening: Opening) -> ExitCode:
        self.hosts.append(host)
        assert opening.patience_s == 4
        assert not self.handler.habits.interruptible, "signals are the supervisor's"
        return ExitCode.FENCED


GUARDED = [{"max_processing_ms": 1000 + GUARD_MORE_MS}, {"timeout_ms": 300}]


def test_a_worker_serves_its_first_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    start = Start(monkeypatch, loop)
    serve = lambda *said: start.story.append(("serve", *said))  # noqa: E731
    monkeypatch.setattr(loop, "_Worker", lambda *said: SimpleNamespace(said=said, serve=serve))
    loop.run_worker(start.spec, start.pipe, start.board)
    assert start.story == [
        (True, "worker g/t/3"), ("g/t", "closed"), *GUARDED, ["pool"], ("serve", 7, 3),
        ("g/t/3", ExitCode.FENCED),
    ]  # fmt: skip
    assert start.connects == [("dsn", {"role": "worker g/t/3", "connect_timeout_s": 4})]
    [worker] = start.hosts
    assert worker.said[:3] == (start.spec, start.pipe, start.board)


def test_a_worker_of_a_queue_hears_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    start = Start(monkeypatch, queue_worker)
    opened: dict[str, Any] = {}

    def open_queue(conn: Any, handler: object, terms: object, group: str, **said: Any) -> str:
        assert (handler, terms, group) == (start.handler, TERMS, "g")
        opened.update(said)
        return "queue"

    class Driver:
        def __init__(self, queue: str, *, wait_period_s: float, wake: Any) -> None:
            assert (queue, wait_period_s) == ("queue", 0.5)
            wake()
            self.conn = "conn"

    monkeypatch.setattr(queue_worker, "open_queue", open_queue)
    monkeypatch.setattr(queue_worker, "QueueDriver", Driver)
    monkeypatch.setattr(queue_worker, "channels_of", lambda _queue: ["a", "b"])
    monkeypatch.setattr(
        queue_worker, "listen", lambda _conn, name: start.story.append(f"listen {name}")
    )
    monkeypatch.setattr(queue_worker, "Notifications", lambda _conn: None)
    monkeypatch.setattr(queue_worker, "fetch_all", lambda *_: [(3,)])
    queue_worker.run_queue_worker(start.spec, start.pipe, start.board)
    name = "queue worker g"
    assert start.story == [
        (True, name), ("g", "closed"), *GUARDED, ["pool"], "listen a", "listen b",
        (name, ExitCode.FENCED),
    ]  # fmt: skip
    assert start.connects == [("dsn", {"role": name, "connect_timeout_s": 4})]
    assert opened["worker"] == "w"
    assert opened["reserve_s"] == (1000 + GUARD_MORE_MS) / 1000
    start.story.clear()
    opened["holds"](7, 1, 2)
    assert start.story == [("hold", 5, 7, 1, 2)]
    [host] = start.hosts
    assert host._wakeup.silence(), "the driver's end of a call rings"
