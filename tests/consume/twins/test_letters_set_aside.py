"""Putting units aside: what is written of each, and of each of its events, among twins."""

from typing import Any

import pytest

from support.letters import HERE, Letters, digest, of

UUID = "10000000-2000-4000-8000-00000000000{}"
# Two events that say all of themselves, but for the transaction of the second; and one that says nothing.
PUBLISH = (
    "insert into gapless.outbox_message_t (topic_id, key, host_id, user_id, transaction_id, event_type, payload,"
    " headers, created_ts, cause, correlation) values"
    " ({orders}, 'a', 'host', 'ann', '" + UUID.format(1) + "', 'paid', '[1]', '{{\"a\": 2}}', {old}, 'why', '"
    + UUID.format(2) + "'),"
    " ({orders}, 'b', 'post', 'bob', null, 'sent', '[3]', '{{\"a\": 4}}', {old}, 'how', '" + UUID.format(3) + "'),"
    " ({orders}, 'a', null, null, '" + UUID.format(4) + "', null, null, null, {old}, null, null)"
    " returning id"
)  # fmt: skip
TIMELINES = (
    "update gapless.log_segment set timeline ="
    " case when topic_id <> {orders} then 7 when partition_id <> 1 then 8 when base_offset > 1 then 9 else 5 end"
)


@pytest.fixture
def ids(letters: Letters) -> list[int]:
    """Of three new events; nothing is set aside here yet, and elsewhere all is as ever."""
    letters.run("delete from gapless.dead_letter where {here}")
    letters.run("delete from gapless.dead_letter_event where {here}")
    letters.run(TIMELINES)
    return [row[0] for row in letters.rows(PUBLISH)]


def call(first_offset: int, state: str, more: str = "") -> str:
    where = f"'billing', {{orders}}, 1, {first_offset}"
    return f"select gapless.set_aside({where}, %s::bigint[], '{state}', 'broken', 'line'{more})"


def made(changed: dict[str, Any], name: str) -> dict[str, Any]:
    """A row that came: what is not null of it, but for what names it."""
    row = {column: value for column, (was, value) in changed[name].items() if was is None}
    return {
        column: value
        for column, value in row.items()
        if column not in ("group_id", "topic_id", "partition_id")
    }


def derived(letters: Letters, timeline: int) -> str:
    """The transaction_id of what this transaction published without one, on that timeline."""
    xid = f"{int(letters.value('select pg_current_xact_id()::text')):016x}"
    return f"{timeline:08x}-0000-8000-8{xid[1:4]}-{xid[4:]}"


PLAIN = {"is_kept": True, "created_ts": "old", "first_offset": 1}


def test_each_event_is_copied_whole(letters: Letters, ids: list[int]) -> None:
    answer, changed = letters.changes(call(1, "dead"), [ids])
    assert answer == 3
    assert list(changed) == [
        f"dead_letter {HERE} 1", *(f"dead_letter_event {HERE} {n}" for n in (1, 2, 3))
    ]  # fmt: skip
    assert made(changed, f"dead_letter_event {HERE} 1") == PLAIN | {
        "c_offset": 1, "message_id": ids[0], "host_id": "host", "user_id": "ann", "key": "a",
        "transaction_id": UUID.format(1), "event_type": "paid", "payload": "[1]", "headers": '{"a": 2}',
        "cause": "why", "correlation": UUID.format(2),
    }  # fmt: skip
    assert made(changed, f"dead_letter_event {HERE} 2") == PLAIN | {
        "c_offset": 2, "message_id": ids[1], "host_id": "post", "user_id": "bob", "key": "b",
        "transaction_id": derived(letters, 5), "event_type": "sent", "payload": "[3]", "headers": '{"a": 4}',
        "cause": "how", "correlation": UUID.format(3),
    }  # fmt: skip
    assert made(changed, f"dead_letter_event {HERE} 3") == PLAIN | {
        "c_offset": 3, "message_id": ids[2], "key": "a", "transaction_id": UUID.format(4)
    }  # fmt: skip


def latest(letters: Letters, topic: str, partition: int, offset: int, timeline: int) -> int:
    """Let latest have an event there that the log has no more; return its id."""
    number = 900_000 + 1000 * (topic == "other") + 100 * partition + offset
    letters.run(
        "insert into gapless.latest (topic_id, key_digest, partition_id, c_offset, timeline, id, xid, key, host_id,"
        " user_id, event_type, payload, headers, created_ts, cause, correlation) values"
        f" ({{{topic}}}, '{number}', {partition}, {offset}, {timeline}, {number}, '17', 'latest', 'h{number}', 'u',"
        f" 't', '[5]', '[6]', {{old}}, 'c', '{UUID.format(9)}')"
    )
    return number


def test_what_the_log_has_no_more_is_copied_from_the_latest(
    letters: Letters, ids: list[int]
) -> None:
    """Its timeline is its own where no segment says one; of what the log has, too, the log says all."""
    letters.run("delete from gapless.log_segment")
    for timeline, (topic, partition, offset) in enumerate(
        [("other", 1, 1), ("orders", 2, 1), ("orders", 1, 2)]
    ):
        latest(letters, topic, partition, offset, 6 + timeline)
    both = "update gapless.latest set id = %s where topic_id = %s and c_offset = 2"
    letters.conn.execute(both, [ids[0], letters.words["orders"]])
    found = latest(letters, "orders", 1, 1, 4)
    answer, changed = letters.changes(call(1, "parked"), [[found, ids[0]]])
    assert answer == 2
    assert made(changed, f"dead_letter_event {HERE} 1") == PLAIN | {
        "c_offset": 1, "message_id": found, "host_id": f"h{found}", "user_id": "u", "key": "latest",
        "transaction_id": "00000004-0000-8000-8000-000000000011", "event_type": "t", "payload": "[5]",
        "headers": "[6]", "cause": "c", "correlation": UUID.format(9),
    }  # fmt: skip
    assert made(changed, f"dead_letter_event {HERE} 2")["key"] == "a"
    assert made(changed, f"dead_letter {HERE} 1")["timeline"] == 4
    keys = letters.rows("select key_digest, first_offset from gapless.dead_letter_key where {here}")
    assert sorted(keys) == sorted([(str(found).encode(), 1), (digest("a"), 1)])


COUNTED = {
    "first_offset": 1, "last_offset": 3, "events": 3, "transaction_id": UUID.format(1), "crashes": 0,
    "reason": "broken", "exception": "line", "first_failed_ts": "0 s", "last_failed_ts": "0 s",
    "timeline": 5,
}  # fmt: skip
MORE = ", 'Error', 'P0001', 4, {}, {}, 'worker', 1.5"
SAYS = {
    "exception_class": "Error", "sqlstate": "P0001", "attempts": 4, "worker": "worker", "duration_ms": 1.5,
}  # fmt: skip
# The state, what else is said; what its row says.
WRITTEN: list[tuple[str, str, dict[str, Any]]] = [
    ("dead", "", {"attempts": 1, "parks": False, "died_ts": "0 s"}),
    ("dead", MORE.format("'1 h'", "true"), SAYS | {"parks": True, "died_ts": "0 s"}),
    ("waiting", "", {"attempts": 1, "parks": False, "next_attempt_ts": "0 s"}),
    ("waiting", MORE.format("'1 h'", "true"), SAYS | {"parks": True, "next_attempt_ts": "3600 s"}),
    ("waiting", MORE.format("'1 h'", "false"), SAYS | {"parks": False, "next_attempt_ts": "3600 s"}),
    ("parked", MORE.format("'1 h'", "false"), SAYS | {"parks": True}),
    ("parked", "", {"attempts": 1, "parks": True}),
]  # fmt: skip


@pytest.mark.parametrize(("state", "more", "columns"), WRITTEN)
def test_what_is_written_of_the_unit(
    letters: Letters, ids: list[int], state: str, more: str, columns: dict[str, Any]
) -> None:
    """One that parks others, or is parked, holds each of its keys once."""
    answer, changed = letters.changes(call(1, state, more), [ids])
    assert answer == 3
    assert made(changed, f"dead_letter {HERE} 1") == COUNTED | columns | {"state": state}
    keys = letters.rows("select key_digest, first_offset from gapless.dead_letter_key where {here}")
    held = sorted([(digest("a"), 1), (digest("b"), 1)])
    assert sorted(keys) == (held if columns["parks"] else [])
    assert len(changed) == 4 + len(keys)


# Offsets that were kept, and what each matched; for each event whether it was kept, what it matched.
KEPT: list[tuple[str, list[tuple[bool | None, str | None]]]] = [
    ("", [(True, None)] * 3),
    (", _kept => '{{1,3}}'", [(True, None), (False, None), (True, None)]),
    (", _kept => '{{}}'", [(False, None)] * 3),
    (
        ", _kept => '{{1,3}}', _matched => array['7,8', '']",
        [(True, "[7, 8]"), (False, None), (True, None)],
    ),
    (
        ", _kept => '{{2,3}}', _matched => array['', '9']",
        [(False, None), (True, None), (True, "[9]")],
    ),
]


@pytest.mark.parametrize(("more", "events"), KEPT)
def test_which_events_the_handler_saw(
    letters: Letters, ids: list[int], more: str, events: list[tuple[bool | None, str | None]]
) -> None:
    _, changed = letters.changes(call(1, "dead", more), [ids])
    rows = [made(changed, f"dead_letter_event {HERE} {n}") for n in (1, 2, 3)]
    assert [(row["is_kept"], row.get("subscriptions")) for row in rows] == events


NEW = {
    "reason": ("why", "broken"), "exception": ("trace", "line"), "exception_class": ("Error", None),
    "sqlstate": ("P0001", None), "worker": ("worker", None), "duration_ms": (1.5, None),
    "last_failed_ts": ("old", "0 s"), "crashes": (1, 0), "attempts": (2, 3), "parks": (True, False),
    "timeline": (3, 5),
}  # fmt: skip


def log_ids(letters: Letters, *offsets: int) -> list[int]:
    return [
        letters.value(
            f"select message_ids[{offset} - base_offset + 1] from gapless.log_segment where topic_id = {{orders}}"
            f" and partition_id = 1 and {offset} between base_offset and last_offset"
        )
        for offset in offsets
    ]


def test_a_unit_that_is_met_again_takes_the_place_of_its_old_self(letters: Letters) -> None:
    """It is shorter, and parks nobody any more; it failed once more."""
    letters.run("update gapless.log_segment set timeline = 5")
    letters.keys({4: "xy", 7: "x"})
    answer, changed = letters.changes(call(4, "waiting"), [log_ids(letters, 4, 5)])
    assert answer == 2
    assert changed == {
        f"dead_letter {HERE} 4": NEW
        | {
            "last_offset": (6, 5), "events": (3, 2), "state": ("parked", "waiting"),
            "next_attempt_ts": (None, "0 s"),
        },
        f"dead_letter_event {HERE} 4": {"subscriptions": ("[1, 2, 3]", None)},
        f"dead_letter_event {HERE} 5": {"subscriptions": ("[1, 2, 3]", None)},
    } | {
        f"dead_letter_key {HERE} {key} 4": changed[f"dead_letter_key {HERE} {key} 4"] for key in "xy"
    }  # fmt: skip


def test_a_discarded_one_is_dead_anew(letters: Letters) -> None:
    letters.run("update gapless.log_segment set timeline = 5")
    _, changed = letters.changes(call(8, "dead", ", _attempts => 5"), [log_ids(letters, 8)])
    assert changed.pop(f"dead_letter {HERE} 8") == NEW | {
        "state": ("discarded", "dead"), "closed_ts": ("old", None), "discarded_by": ("bob", None),
        "discard_reason": ("of no use", None), "attempts": (2, 7), "died_ts": ("old", "0 s"),
    }  # fmt: skip
    assert list(changed) == [f"dead_letter_event {HERE} 8"]


def test_events_of_an_earlier_unit_may_be_of_another_one_now(letters: Letters) -> None:
    more = ", _kept => '{{6}}', _matched => array['4']"
    _, changed = letters.changes(call(5, "dead", more), [log_ids(letters, 5, 6)])
    assert of(changed, "dead_letter_event") == {
        f"{HERE} 5": {
            "first_offset": (4, 5),
            "is_kept": (True, False),
            "subscriptions": ("[1, 2, 3]", None),
        },
        f"{HERE} 6": {"first_offset": (4, 5), "subscriptions": ("[1, 2, 3]", "[4]")},
    }
    assert list(of(changed, "dead_letter")) == [f"{HERE} 5"]


def test_fewer_events_than_were_asked_for_are_an_error(letters: Letters, ids: list[int]) -> None:
    statement = call(1, "dead").format(**letters.words)
    found = f"dead letters of billing {letters.words['orders']}-1: 1 of 2 events found"
    assert letters.twins.refused(statement, [[ids[0], 999_999]]) == ("P0001", found)
    letters.run("update gapless.retention_state set dropped_upto = 1000000")
    code, why = letters.twins.refused(statement, [[ids[0], 999_999]])
    assert (code, why[:25]) == ("40001", "event 999999 was dropped,")


@pytest.mark.parametrize(
    ("exception", "reason"),
    [
        ("first\nlast line", "last line"), ("only", "only"), ("ends\n", ""), ("x" * 501, "x" * 500),
    ],
)  # fmt: skip
def test_a_dead_letter_of_a_client_without_a_policy(
    letters: Letters, ids: list[int], exception: str, reason: str
) -> None:
    put = "select gapless.dead_letter('billing', {orders}, 1, 1, %s::bigint[], %s"
    answer, changed = letters.changes(f"{put}, 'P0009', 6)", [ids, exception])
    assert answer == 3
    said = {"attempts": 6, "sqlstate": "P0009", "reason": reason, "exception": exception}
    died = {"state": "dead", "parks": False, "died_ts": "0 s"}
    assert made(changed, f"dead_letter {HERE} 1") == COUNTED | said | died
    assert len(changed) == 4
