"""The facts of topics: for how long they are believed, what is asked then, and rules that nothing reads."""

from types import SimpleNamespace
from typing import Any

import pytest

from gapless import feature
from gapless.consume.user.guard import Guard
from gapless.errors import UncheckedError, UsageError
from gapless.log import known as module
from gapless.log.known import KnownTopic, known_topic
from support.scripted import Answers

PID = 7
RULES = '[{"event_type": "*", "version": 1, "schema": "true"}]'


def connection(database: str = "shop") -> Any:
    info = SimpleNamespace(host="host", port=5432, dbname=database, backend_pid=PID)
    return SimpleNamespace(info=info)


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_known", {})


def test_they_are_read_again_when_it_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """By one connection for all to that database; what has not changed is not sent again."""
    told = Answers(monkeypatch, module, (3, RULES, PID), (3, None, PID + 1), (4, "[]", PID))

    def at(now_s: float, conn: Any) -> KnownTopic:
        told.now_s = now_s
        found: KnownTopic = told.play(known_topic(conn, "orders"))
        return found

    first = at(100.0, connection())
    assert (first.rules_no, first.prepare, first.seen_s) == (3, None, 101.0)
    assert at(105.99, connection()) is first
    second = at(106.0, connection())
    assert (second.rules_no, second.prepare, second.seen_s) == (3, False, 107.0), "a pooler"
    assert second.rules is first.rules is not None
    third = at(112.0, connection())
    assert (third.rules_no, third.prepare, third.rules) == (4, None, None)
    assert [asked for _, asked in told.asked] == [
        {"topic": "orders", "known": number} for number in (None, 3, 3)
    ]


def test_a_topic_that_is_not_there_has_no_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Answers(monkeypatch, module, (None, None, PID))
    assert told.play(known_topic(connection(), "orders")) == KnownTopic(0, None, 101.0)


def test_rules_that_nothing_reads_let_nothing_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the folder of schemas were gone: no entry can publish past them."""
    monkeypatch.setattr(feature, "listed", tuple)
    with pytest.raises(UncheckedError, match=r"^topic orders has schemas, and"):
        Answers(monkeypatch, module, (3, RULES, PID)).play(known_topic(connection(), "orders"))
    assert module._known == {}, "it is looked at again"
    with pytest.raises(UsageError, match=r'^handler\(on_invalid="dead-letter"\) needs the feature'):
        Guard()
