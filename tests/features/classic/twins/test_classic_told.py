"""Topics whose events are announced on a classic channel: which, on what channel, and by one trigger."""

import json
from typing import Any

import psycopg
import pytest

from gapless.db.connect import connect
from gapless.log.sequence import sequence
from support.twins import PUBLISH, Changes, Twins

TELL = "select gapless.notify_classic(%s, %s)"
SILENCE = "select gapless.silence_classic(%s)"
TRIGGER = "select gapless.classic_trigger()::text"
NUMBER = (
    "select oid::bigint from pg_trigger"
    " where tgname = 'classic_notify' and tgrelid = 'gapless.log_segment'::regclass"
)
BELL = 'Old "Bell"'
MISSING = 'topic "none" does not exist: create it with gapless topics create none'


def called(twins: Twins, statement: str, *params: Any) -> tuple[bool, Changes]:
    """The answer of a call, and what it changed."""
    said = f"select set_config('test.answer', ({statement})::text, true)"
    changed = twins.changes(said, params)
    return twins.value("select current_setting('test.answer')") == "true", changed


def channel(changed: Changes, topic: str) -> tuple[Any, Any]:
    """From which channel to which one a topic went; it is taken out of what changed."""
    return changed.pop(f"classic_channel {topic}")["channel"]


def test_a_topic_is_announced_on_a_channel(twins: Twins) -> None:
    """Another channel takes its place; other topics have their own."""
    answer, changed = called(twins, TELL, "other", "theirs")
    assert (answer, channel(changed, "other")) == (True, (None, "theirs"))
    for name, before in (("event_channel", None), (BELL, "event_channel")):
        answer, changed = called(twins, TELL, "orders", name)
        assert (answer, channel(changed, "orders")) == (True, (before, name))
        audit = changed.pop("audit classic-notify  orders None")
        assert json.loads(audit["detail"][1]) == {"channel": name}
        assert changed == {}
        assert called(twins, TELL, "orders", name) == (False, {})
        twins.conn.execute("delete from gapless.audit")
    with twins.undone():
        assert called(twins, "select gapless.notify_classic(%s)", "orders")[0] is True
        mine = "select channel from gapless.classic_channel where topic_id = %s"
        assert twins.value(mine, twins.topic_ids["orders"]) == "event_channel"


@pytest.mark.parametrize("name", ["x", "x" * 63, "ü" * 31])
def test_a_channel_has_a_name(twins: Twins, name: str) -> None:
    assert called(twins, TELL, "orders", name)[0] is True


@pytest.mark.parametrize("name", ["", "x" * 64, "ü" * 32, None])
def test_what_is_no_name_of_a_channel(twins: Twins, name: str | None) -> None:
    said = f'a channel has a name of 1 to 63 bytes, not "{"<NULL>" if name is None else name}"'
    assert twins.refused(TELL, ["orders", name]) == ("GL400", said)
    assert twins.refused(TELL, ["none", name]) == ("GL404", MISSING)


def test_the_trigger_is_there_for_as_long_as_a_topic_is_announced(twins: Twins) -> None:
    for topic in ("orders", "other"):
        assert called(twins, SILENCE, topic) == (False, {})
    assert twins.value(TRIGGER) is None
    called(twins, TELL, "orders", "bell")
    number = twins.value(NUMBER)
    assert twins.value(TRIGGER) == "O"
    called(twins, TELL, "other", "bell")
    assert twins.value(NUMBER) == number, "it is made once"
    answer, changed = called(twins, SILENCE, "orders")
    assert (answer, channel(changed, "orders")) == (True, ("bell", None))
    assert json.loads(changed.pop("audit classic-silence  orders None")["detail"][1]) == {}
    assert (changed, twins.value(TRIGGER)) == ({}, "O")
    assert called(twins, SILENCE, "orders") == (False, {})
    assert twins.value(NUMBER) == number
    assert called(twins, SILENCE, "other")[0] is True
    assert twins.value(TRIGGER) is None
    assert called(twins, SILENCE, "other") == (False, {})
    assert twins.refused(SILENCE, ["none"]) == ("GL404", MISSING)


@pytest.mark.parametrize("state", ["disable", "enable replica"])
def test_a_trigger_that_does_not_fire_is_made_anew(twins: Twins, state: str) -> None:
    conn = twins.conn
    called(twins, TELL, "orders", "bell")
    number = twins.value(NUMBER)
    conn.execute(f"alter table gapless.log_segment {state} trigger classic_notify".encode())
    assert twins.value(TRIGGER) == {"disable": "D", "enable replica": "R"}[state]
    assert called(twins, TELL, "orders", "bell")[0] is False, "it was announced before"
    assert twins.value(TRIGGER) == "O"
    assert twins.value(NUMBER) != number


@pytest.mark.parametrize("state", ["O", "D"])
def test_a_trigger_of_another_table_is_another(twins: Twins, state: str) -> None:
    conn = twins.conn
    conn.execute("create table public.t (n int)")
    conn.execute(
        "create trigger classic_notify before update on public.t"
        " for each row execute function suppress_redundant_updates_trigger()"
    )
    if state == "D":
        conn.execute("alter table public.t disable trigger classic_notify")
    assert twins.value(TRIGGER) is None
    called(twins, TELL, "orders", "bell")
    assert twins.value(TRIGGER) == "O"


def heard(listener: psycopg.Connection[Any], act: Any) -> list[tuple[str, str]]:
    """What one who listens to all three hears of it."""
    act()
    listener.execute("notify last")
    found: list[tuple[str, str]] = []
    for note in listener.notifies(timeout=20):
        if note.channel == "last":
            return sorted(found)
        found.append((note.channel, note.payload))
    raise AssertionError("not even the last one came")


def test_who_listens_hears_of_its_topics_alone(shared: Twins, module_dsn: str) -> None:
    """Once a run and channel, however many events and topics. (This stays: it is told at the COMMIT.)"""
    conn = shared.conn

    def came(*topics: str) -> None:
        for topic in topics:
            for key in ("a", "b", "c", "d"):
                conn.execute(PUBLISH, [topic, "late", key])
        while sequence(conn):
            pass

    with connect(module_dsn, role="test") as listener:
        listener.execute(
            f'listen event_channel; listen "{BELL.replace(chr(34), chr(34) * 2)}"; listen last'
        )
        try:
            conn.execute(TELL, ["orders", "event_channel"])
            assert heard(listener, lambda: came("other")) == []
            assert heard(listener, lambda: came("orders")) == [("event_channel", "new_event")]
            conn.execute(TELL, ["other", BELL])
            assert heard(listener, lambda: came("other")) == [(BELL, "new_event")]
            both = [(BELL, "new_event"), ("event_channel", "new_event")]
            assert heard(listener, lambda: came("other", "orders")) == both
            conn.execute(TELL, ["other", "event_channel"])
            assert heard(listener, lambda: came("other", "orders")) == both[1:]
            assert heard(listener, came) == []
        finally:
            for topic in ("orders", "other"):
                conn.execute(SILENCE, [topic])
        assert heard(listener, lambda: came("other", "orders")) == []
