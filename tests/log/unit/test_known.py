"""Rules of a topic that nothing reads: no entry publishes past them."""

from types import SimpleNamespace
from typing import Any

import pytest

from gapless import feature
from gapless.consume.user.guard import Guard
from gapless.errors import UncheckedError, UsageError
from gapless.log import known as module
from gapless.log.known import known_topic
from support.scripted import Answers

PID = 7
RULES = '[{"event_type": "*", "version": 1, "schema": "true"}]'


def test_rules_that_nothing_reads_let_nothing_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the folder of schemas were gone: no entry can publish past them."""
    monkeypatch.setattr(module, "_known", {})
    monkeypatch.setattr(feature, "listed", tuple)
    info = SimpleNamespace(host="host", port=5432, dbname="shop", backend_pid=PID)
    conn: Any = SimpleNamespace(info=info)
    with pytest.raises(UncheckedError, match=r"^topic orders has schemas, and"):
        Answers(monkeypatch, module, (3, RULES, PID)).play(known_topic(conn, "orders"))
    assert module._known == {}, "it is looked at again"
    with pytest.raises(UsageError, match=r'^handler\(on_invalid="dead-letter"\) needs the feature'):
        Guard()
