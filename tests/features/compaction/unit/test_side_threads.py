"""The threads beside the sequencer: how long the compactor waits, and what is dropped."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from gapless.features.compaction import duty as module
from gapless.features.compaction.duty import LOOK_S, Compactor
from gapless.features.expiry import duty as expiry
from gapless.features.retention import duty as retention
from gapless.features.retention.chunks import HistoryRetention
from gapless.features.retention.settings import RetentionSettings
from gapless.settings import Settings


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Compactor:
    """One that finds something to do, nothing, something, and then no topic."""
    steps = iter([True, False, True, None])
    monkeypatch.setattr(module, "connect", lambda *_, **__: nullcontext(steps))
    monkeypatch.setattr(module, "compact", next)
    spec: Any = SimpleNamespace(dsn="", settings=Settings())
    return Compactor(spec)


def test_it_waits_only_when_there_was_nothing_to_do(
    made: Compactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(made.ended, "wait", waited.append)
    made.look()
    assert waited == [0.0, LOOK_S, 0.0]


def test_it_ends_when_it_is_told_to(made: Compactor, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[object] = []
    monkeypatch.setattr(module, "compact", lambda steps: taken.append(1) or next(steps))
    made.ended.set()
    made.look()
    assert taken == [1], "one step was taken"


# -- what is over -------------------------------------------------------------------------------


def test_what_is_over_is_dropped_and_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "gapless")
    asked: list[object] = []
    group = SimpleNamespace(group_id="g", topic="t", set_aside=2, subscriptions=3)
    for where, name, found in (
        (retention, "apply_retention", "chunk 7"),
        (expiry, "expire_groups", group),
        (expiry, "expire_subscriptions", group),
    ):

        def drop(_conn: object, said: object, found: object = found) -> list[object]:
            asked.append(said)
            return [found]

        monkeypatch.setattr(where, "connect", lambda *said, **more: nullcontext((*said, more)))
        monkeypatch.setattr(where, name, drop)
    settings = Settings(
        retention_check_s=60,
        sections=(RetentionSettings(dead_letter_retention_s=5, audit_retention_s=6),),
    )
    spec: Any = SimpleNamespace(dsn="", connect_timeout_s=1, settings=settings)
    retention.RetentionDuty(spec).look()
    expiry.ExpiryDuty(spec).look()
    assert asked == [HistoryRetention(letters_s=5, audit_s=6), 60, 60]
    assert [each.levelname for each in caplog.records] == ["INFO", "WARNING", "WARNING"]
    assert [each.partition(":")[0] for each in caplog.messages] == [
        "retention", "group g expired", "group g of topic t",
    ]  # fmt: skip
