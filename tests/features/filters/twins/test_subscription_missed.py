"""Letters that a subscription joins which missed their events, what keeps it stopped, and who may stop one at all."""

import json
from hashlib import md5

import pytest

from features.filters.twins.asking import HOSTILE
from features.filters.twins.missing import LETTERS, twins
from features.filters.twins.stopping import (
    DELIVER,
    RESUME,
    TOKEN,
    WHY,
    ask_for,
    letters,
    resumed,
    settled,
    stopped,
)
from support.subscribed import HERE, PLACES, deed, number, numbers, stop, subscribe
from support.twins import Twins

__all__ = ["settled", "twins"]

OTHER = "00000000-0000-4000-8000-000000000002"
STOP = "select gapless.stop_subscriptions('billing', %s, 1, %s, %s, %s, %s)"
LETTER = "dead_letter billing orders 1 4"
EVENT = "dead_letter_event billing orders 1 {}"
CLOSED = (
    "update gapless.dead_letter set state = '{state}', next_attempt_ts = null, closed_ts = now(),"
    " discarded_by = case '{state}' when 'discarded' then 'me' end,"
    " discard_reason = case '{state}' when 'discarded' then 'none' end"
)
KEPT = (
    "update gapless.dead_letter_event set is_kept = true, subscriptions = array[%s, %s]::bigint[]"
    " where c_offset = 5 and group_id = 'billing'"
)


def due(twins: Twins) -> list[tuple[str, str, int, str]]:
    """Whose letters are due at once: all others' wait for an hour, or for nothing."""
    return twins.conn.execute(
        "select d.group_id, t.name, d.partition_id, d.state from gapless.dead_letter d"
        " join gapless.topic t using (topic_id)"
        " where next_attempt_ts < clock_timestamp() + interval '1 min' order by 1, 2, 3"
    ).fetchall()


@pytest.mark.parametrize(
    ("state", "becomes"), [("waiting", "waiting"), ("parked", "parked"), ("dead", "waiting")]
)
def test_a_unit_that_is_aside_gets_it_in_addition(twins: Twins, state: str, becomes: str) -> None:
    """Of the events that it matched; those of others stay theirs. It is due at once, unless it waits for another."""
    ben, ann = number(twins, "ben"), ask_for(twins, 4, 6)
    twins.conn.execute(LETTERS, {"state": state})
    stopped(twins, 1, 9)
    answer, changed = resumed(twins, 1)
    letter = {} if state == becomes else {"state": (state, becomes)}
    expected = {
        EVENT.format(4): {"is_kept": (False, True), "subscriptions": (None, json.dumps([ann]))},
        EVENT.format(6): {"subscriptions": (json.dumps([ben]), json.dumps([ben, ann]))},
    }
    if letter or becomes == "waiting":
        expected[LETTER] = letter
    assert (answer, changed) == (1, expected)
    assert due(twins) == ([(*HERE, 1, "waiting")] if becomes == "waiting" else [])


def test_who_is_told_already_is_told_once(twins: Twins) -> None:
    ben, ann = number(twins, "ben"), ask_for(twins, 5)
    twins.conn.execute(LETTERS, {"state": "waiting"})
    twins.conn.execute(KEPT, [ann, ben])
    stopped(twins, 1, 9)
    _, changed = resumed(twins, 1)
    told = json.dumps([ann, ben]), json.dumps([ben, ann])
    assert changed == {EVENT.format(5): {"subscriptions": told}, LETTER: {}}


@pytest.mark.parametrize("state", ["redriven", "discarded"])
def test_one_that_is_through_is_set_aside_anew_for_it_alone(twins: Twins, state: str) -> None:
    ann = ask_for(twins, 5)
    twins.conn.execute(LETTERS, {"state": "waiting"})
    twins.conn.execute(CLOSED.format(state=state))
    stopped(twins, 1, 9)
    answer, changed = resumed(twins, 1)
    assert (answer, due(twins)) == (1, [(*HERE, 1, "waiting")])
    ben = json.dumps([number(twins, "ben")])
    changed[LETTER] = {k: v for k, v in changed[LETTER].items() if not k.startswith("discard")}
    assert changed == {
        LETTER: {"state": (state, "waiting"), "reason": ("failed", WHY), "exception": ("trace", WHY)},
        EVENT.format(5): {"is_kept": (False, True), "subscriptions": (None, json.dumps([ann]))},
        EVENT.format(6): {"is_kept": (True, False), "subscriptions": (ben, None)},
    }  # fmt: skip


def test_what_is_in_hand_was_killed_by_nobody(twins: Twins) -> None:
    """Of the letters of that partition that wait, once: by each attempt that began and did not end."""
    ask_for(twins)
    twins.conn.execute(LETTERS, {"state": "waiting"})
    twins.conn.execute("update gapless.dead_letter set crashes = 2")
    stopped(twins, 1, 9)
    assert resumed(twins, 1) == (0, {LETTER: {"crashes": (2, 1)}})
    for change in (
        "state = 'dead', next_attempt_ts = null",
        "state = 'parked', next_attempt_ts = null",
        "crashes = 0",
    ):
        with twins.undone():
            stopped(twins, 1, 9)
            twins.conn.execute(f"update gapless.dead_letter set {change}")
            twins.conn.execute("update gapless.consumer_offsets set token = %s", [TOKEN])
            twins.conn.execute("drop table answer; delete from gapless.audit")
            assert resumed(twins, 1) == (0, {})


def test_others_letters_are_in_nobody_s_way(twins: Twins) -> None:
    """The same unit of every other place is aside: this one is set aside as if it were not."""
    ann = ask_for(twins, 4, 6)
    twins.conn.execute(LETTERS, {"state": "waiting"})
    twins.conn.execute(
        "delete from gapless.dead_letter d using gapless.topic t where d.topic_id = t.topic_id"
        " and t.name = 'orders' and group_id = 'billing' and partition_id = 1"
    )
    twins.conn.execute(
        "delete from gapless.dead_letter_event d using gapless.topic t where d.topic_id = t.topic_id"
        " and t.name = 'orders' and group_id = 'billing' and partition_id = 1"
    )
    stopped(twins, 1, 9)
    assert letters(resumed(twins, 1)[1], ann) == {4: [4, 6]}
    assert due(twins) == [(*HERE, 1, "waiting")]


RAISES = "1 / ((e.payload ->> 'n')::int - (s.params ->> 'at')::int) is not null"
# Where it raises, from where it was stopped, where the group is; about which events it was asked then.
RAISED = [(8, 1, 9, "8 to 8"), (7, 1, 9, "4 to 7"), (3, 1, 9, "2 to 3"), (6, 5, 7, "6 to 6")]


@pytest.mark.parametrize(("at", "first", "upto", "asked"), RAISED)
def test_one_that_raises_still_stays_stopped(
    twins: Twins, at: int, first: int, upto: int, asked: str
) -> None:
    subscribe(twins, "ann", sql=RAISES, params={"at": at})
    stopped(twins, first, upto)
    said = (
        f"it stays stopped, for its condition raises about offsets {asked} of partition 1:"
        " division by zero (SQLSTATE 22012)"
    )
    assert twins.refused(RESUME) == ("GL409", said)
    subscribe(twins, "ann", sql=RAISES, params={"at": first - 1})
    assert twins.value(RESUME) is not None


@pytest.mark.parametrize("replays", [False, True])
@pytest.mark.parametrize("others", [False, True])
def test_one_whose_time_is_over_stays_stopped(twins: Twins, replays: bool, others: bool) -> None:
    text = "e.key = 'slow'"
    subscribe(twins, "slow", sql=text)
    digest = md5(text.encode(), usedforsecurity=False).hexdigest()
    twins.conn.execute(HOSTILE.format(digest=digest, state="57014"))
    twins.conn.execute(
        "create function pg_temp.missed(int, bigint, boolean) returns bigint language sql"
        " set statement_timeout = '1ms' as"
        " $$ select gapless.set_missed_aside('billing', $1, 1, $2, 1, 3, $3) $$"
    )
    asked = [twins.topic_ids["orders"], number(twins, "slow"), replays]
    so = "" if replays else "it stays stopped, for "
    said = (
        f"{so}its condition takes longer than statement_timeout about offsets 1 to 3 of partition 1"
    )
    assert twins.refused("select pg_temp.missed(%s, %s, %s)", asked) == ("GL409", said)


def test_what_is_sent_again_says_so(twins: Twins) -> None:
    """The part of replay_webhook(): the same, with another reason."""
    ann = ask_for(twins, 4)
    ask = "select gapless.set_missed_aside('billing', %s, 1, %s, %s, %s, _replays => true)"
    asked = [twins.topic_ids["orders"], ann]
    assert twins.value(ask, *asked, 1, 3) == 0
    assert twins.value(ask, *asked, 4, 4) == 1
    reasons = twins.conn.execute("select reason, exception, attempts from gapless.dead_letter")
    assert reasons.fetchall() == [("it is sent again", "it is sent again", 0)]


@pytest.mark.parametrize(("base", "asked"), [(1, "1 to 1"), (4, "4 to 7"), (7, "4 to 7")])
def test_what_is_missing_cannot_be_asked_about(twins: Twins, base: int, asked: str) -> None:
    ask_for(twins, 1)
    stopped(twins, 1, 9)
    here = "topic_id = %s and partition_id = 1"
    twins.conn.execute(
        f"delete from gapless.log_segment where base_offset = %s and not ({here})",
        [base, twins.topic_ids["orders"]],
    )
    with twins.undone():
        assert twins.value(RESUME) == 1
    twins.conn.execute(
        f"delete from gapless.log_segment where base_offset = %s and {here}",
        [base, twins.topic_ids["orders"]],
    )
    said = f"offsets {asked} of partition 1 are missing from the log: its missed events cannot be read any more"
    assert twins.refused(RESUME) == ("GL409", said)


def test_who_is_not_there_is_not_resumed(twins: Twins) -> None:
    subscribe(twins, "cid", ("mail", "orders"), match={"n": "key"}, params={"n": 1})
    subscribe(twins, "cid", ("billing", "other"), match={"n": "key"}, params={"n": 1})
    said = 'group "billing" has no subscription "cid" of topic "orders"'
    assert twins.refused(RESUME.replace("ann", "cid")) == ("GL404", said)
    said = 'there is no group "nobody": gapless groups lists them'
    assert twins.refused(RESUME.replace("billing", "nobody")) == ("GL404", said)
    twins.conn.execute("select gapless.create_group('fresh', 'orders')")
    said = 'group "fresh" has no subscription "ann" of topic "orders"'
    assert twins.refused(RESUME.replace("billing", "fresh")) == ("GL404", said)
    stop(twins, "s.name <> 'ann' or s.group_id <> 'billing' or t.name <> 'orders'")
    twins.conn.execute(DELIVER, [7, 7, 2, False, False])
    assert deed(twins, RESUME) == (None, {}, [])


def test_only_the_owner_stops_one_and_only_its_group_s(twins: Twins) -> None:
    """From where the group is there; each once, and with its own reason."""
    for place in PLACES:
        subscribe(twins, "cid", place, match={"n": "key"}, params={"n": 1})
    twins.seek(4)
    twins.seek(7, twins.here())
    every = [each for place in PLACES for each in numbers(twins, place)]
    names = {each: name for place in PLACES for each, name in numbers(twins, place).items()}
    names = {each: name for each, name in names.items() if name != "cid"}
    ids = [each for each in every if each in names]
    reasons = [f"reason of {each} " + "x" * 400 for each in ids]
    orders = twins.topic_ids["orders"]
    for epoch, token in ((4, TOKEN), (6, TOKEN), (5, OTHER), (5, None)):
        assert deed(twins, STOP, [orders, epoch, token, ids, reasons]) == (None, {}, [])
    answer, changed, audited = deed(twins, STOP, [orders, 5, TOKEN, ids, reasons])
    assert (answer, sorted(changed)) == (2, [f"stop billing orders {n} 1" for n in ("ann", "ben")])
    for name in ("ann", "ben"):
        was, now = changed[f"stop billing orders {name} 1"]
        assert (was, now["from_offset"], now["partition_id"]) == (None, 7, 1)
        assert now["reason"] == f"reason of {number(twins, name)} " + "x" * 400
    detail = {"subscriptions": 2, "first": "ann", "reason": reasons[0][:300]}
    assert audited == [("stop_subscriptions", *HERE, 1, detail)]
    assert deed(twins, STOP, [orders, 5, TOKEN, ids, reasons]) == (0, {}, [])
    cid = [number(twins, "cid"), number(twins, "ann")]
    assert deed(twins, STOP, [orders, 5, TOKEN, cid, ["slow", "slow"]])[0] == 1
