"""What several groups, one behind the other, have done with a transaction and what came of it, among twins."""

from time import monotonic
from typing import Any
from uuid import UUID

import psycopg
import pytest

from support.chains import FIRST, NOBODY, PLACES, SECOND, Chains

THROUGH = "select * from gapless.chain_state(array{}, '{}')"
LATER = (
    "insert into gapless.scheduled (deliver_at, timeline, topic_id, cause, correlation, payload)"
    " values (now() + interval '1 hour', 1, {{{}}}, '{}', '{}', '1')"
)
BOTH = ["billing", "mail"]


@pytest.fixture
def chains(chains: Chains) -> Chains:
    """Who waits for what cannot come is stopped."""
    chains.run("set local statement_timeout = '5 s'")
    return chains


def through(chains: Chains, groups: list[str], transaction_id: UUID = FIRST) -> Any:
    ((state, group),) = chains.rows(THROUGH.format(groups, transaction_id))
    return state, group


def at(group: str, unit: str) -> str:
    """The condition of a group's place in the partition of a unit."""
    topic, partition, *_ = PLACES[unit]
    return f"group_id = '{group}' and topic_id = {{{topic}}} and partition_id = {partition}"


# The groups; who stands where, before which unit; the state, and whose it is.
STANDS: list[tuple[list[str], list[tuple[str, str]], tuple[str, str]]] = [
    (["billing"], [], ("handled", "billing")),
    (BOTH, [], ("handled", "mail")),
    (BOTH, [("billing", "b")], ("pending", "billing")),
    (BOTH, [("billing", "b"), ("mail", "a")], ("pending", "billing")),
    (BOTH, [("mail", "a")], ("pending", "mail")),
    (BOTH, [("mail", "l")], ("pending", "mail")),
    (BOTH, [("mail", "c")], ("pending", "mail")),
    (BOTH, [("mail", "d")], ("pending", "mail")),
    (BOTH, [("billing", "d")], ("handled", "mail")),
    (BOTH, [("mail", "e")], ("handled", "mail")),
    (BOTH, [("mail", "f")], ("handled", "mail")),
    (["mail", "billing"], [("billing", "f")], ("pending", "billing")),
    (["mail", "billing"], [("billing", "d")], ("handled", "billing")),
    (["mail", "billing"], [("billing", "e")], ("handled", "billing")),
    ([*BOTH, "billing"], [("billing", "e")], ("pending", "billing")),
    ([*BOTH, "billing"], [("billing", "f")], ("pending", "billing")),
    ([*BOTH, "solo"], [("solo", "f")], ("pending", "solo")),
    ([*BOTH, "solo"], [("solo", "h")], ("handled", "solo")),
    (["solo", "mail"], [("mail", "d"), ("mail", "e"), ("mail", "f")], ("handled", "mail")),
    (["billing", "solo"], [("solo", "d")], ("pending", "solo")),
    (["billing", "solo"], [("solo", "c")], ("pending", "solo")),
    (["billing", "solo"], [("solo", "f")], ("handled", "solo")),
    (["billing", "billing", "mail"], [("mail", "e")], ("handled", "mail")),
    (["auditor", "sender"], [], ("handled", "sender")),
]  # fmt: skip


@pytest.mark.parametrize(("groups", "before", "says"), STANDS)
def test_who_is_not_done(
    chains: Chains, groups: list[str], before: list[tuple[str, str]], says: tuple[str, str]
) -> None:
    for group, unit in before:
        chains.seek(PLACES[unit][3], at(group, unit))
    assert through(chains, groups) == says


def test_another_chain_is_another_one_s(chains: Chains) -> None:
    chains.seek(11, "group_id = 'mail' and topic_id = {other} and partition_id = 0")
    assert through(chains, BOTH) == ("handled", "mail")
    assert through(chains, BOTH, SECOND) == ("pending", "mail")
    chains.seek(9, "group_id = 'mail' and topic_id = {other} and partition_id = 1")
    assert through(chains, BOTH, SECOND) == ("pending", "mail")
    assert through(chains, BOTH, chains.unnamed["i"]) == ("pending", "mail")
    chains.seek(100, "topic_id = {other} and partition_id = 0")
    assert through(chains, BOTH, SECOND) == ("handled", "mail")
    assert through(chains, BOTH, NOBODY) == ("unknown", "billing")
    assert through(chains, ["solo", "mail"], SECOND) == ("elsewhere", "solo")


# What is set aside: by whom, which unit, in which state; and what is said of both, and of both and billing again.
ASIDE: list[tuple[list[tuple[str, str, str]], tuple[str, str], tuple[str, str]]] = [
    ([("billing", "a", "dead")], ("dead", "billing"), ("dead", "billing")),
    ([("billing", "a", "waiting")], ("waiting", "billing"), ("waiting", "billing")),
    ([("mail", "d", "dead")], ("dead", "mail"), ("dead", "mail")),
    ([("mail", "d", "redriven")], ("handled", "mail"), ("handled", "billing")),
    ([("mail", "b", "discarded")], ("dead", "mail"), ("dead", "mail")),
    ([("mail", "d", "parked")], ("waiting", "mail"), ("waiting", "mail")),
    ([("mail", "d", "dead"), ("mail", "c", "waiting")], ("waiting", "mail"), ("waiting", "mail")),
    ([("mail", "d", "dead"), ("billing", "b", "dead")], ("dead", "billing"), ("dead", "billing")),
    ([("mail", "f", "dead"), ("mail", "e", "waiting")], ("handled", "mail"), ("handled", "billing")),
    ([("billing", "e", "dead")], ("handled", "mail"), ("dead", "billing")),
    ([("billing", "f", "waiting")], ("handled", "mail"), ("waiting", "billing")),
    ([("billing", "e", "dead"), ("mail", "d", "dead")], ("dead", "mail"), ("dead", "mail")),
]  # fmt: skip


@pytest.mark.parametrize(("letters", "both", "again"), ASIDE)
def test_what_was_put_aside_on_the_way(
    chains: Chains,
    letters: list[tuple[str, str, str]],
    both: tuple[str, str],
    again: tuple[str, str],
) -> None:
    for group, unit, state in letters:
        chains.aside(group, PLACES[unit], state)
    assert through(chains, BOTH) == both
    assert through(chains, [*BOTH, "billing"]) == again


def test_what_is_pending_counts_before_what_waits(chains: Chains) -> None:
    chains.aside("mail", PLACES["d"], "waiting")
    chains.seek(9, at("mail", "c"))
    assert through(chains, BOTH) == ("pending", "mail")
    chains.publish_late("other", 2, "billing/orders/1@9", of=FIRST)
    assert through(chains, BOTH) == ("unsequenced", "mail")


def test_what_a_group_has_nothing_to_do_with_may_be_without_offset(chains: Chains) -> None:
    chains.publish_late("orders", 2, "billing/orders/1@9", of=FIRST)
    assert through(chains, ["billing", "solo"]) == ("handled", "solo")
    assert through(chains, BOTH) == ("unsequenced", "mail")


# What waits for its time: topic, cause, correlation; what is said of billing and mail, of billing and solo.
WAITING = [
    ("orders", "billing/orders/1@9", FIRST, "scheduled", "handled"),
    ("other", "billing/orders/1@9", FIRST, "scheduled", "scheduled"),
    ("other", "mail/orders/1@9", FIRST, "handled", "handled"),
    ("other", "billing2/orders/1@9", FIRST, "handled", "handled"),
    ("other", "billing/orders/1@9", SECOND, "handled", "handled"),
]  # fmt: skip


@pytest.mark.parametrize(("topic", "cause", "correlation", "mail", "solo"), WAITING)
def test_what_waits_for_its_time_on_the_way(
    chains: Chains, topic: str, cause: str, correlation: UUID, mail: str, solo: str
) -> None:
    chains.run(LATER.format(topic, cause, correlation))
    assert through(chains, BOTH) == (mail, "mail")
    assert through(chains, ["billing", "solo"]) == (solo, "solo")
    assert through(chains, ["billing"]) == ("handled", "billing")


def test_one_in_the_middle_of_a_chain_is_asked_for(chains: Chains) -> None:
    """By what d published as: its correlation is that of the whole chain."""
    ((named,),) = chains.rows(
        f"select transaction_id from gapless.outbox_message_t where id = {chains.ids['d'][0]}"
    )
    assert through(chains, ["mail", "billing"], named) == ("handled", "billing")
    chains.seek(9, at("billing", "f"))
    assert through(chains, ["mail", "billing"], named) == ("handled", "billing")
    chains.run(LATER.format("orders", "mail/other/0@9", FIRST))
    assert through(chains, ["mail", "billing"], named) == ("scheduled", "billing")
    chains.run("delete from gapless.scheduled")
    chains.seek(10, at("billing", "e"))
    assert through(chains, ["mail", "billing"], named) == ("pending", "billing")


WAIT = "select * from gapless.wait_through(array{}, '{}', {})"
WAIT_FOR = "select gapless.wait_for('{}', '{}', {})"
NOT_ISOLATED = "to wait needs READ COMMITTED, not {}: it would never see the group continue"


# What is so; which groups; what is said, and whether that is waited for.
ENDS: list[tuple[str, list[str], UUID, tuple[str, str], bool]] = [
    ("", BOTH, FIRST, ("handled", "mail"), False),
    ("dead", BOTH, FIRST, ("dead", "mail"), False),
    ("waiting", BOTH, FIRST, ("waiting", "mail"), True),
    ("", ["solo", "mail"], SECOND, ("elsewhere", "solo"), False),
    ("", BOTH, NOBODY, ("unknown", "billing"), True),
]  # fmt: skip


@pytest.mark.parametrize(("letter", "groups", "transaction_id", "says", "waits"), ENDS)
def test_what_cannot_change_is_not_waited_for(
    chains: Chains,
    letter: str,
    groups: list[str],
    transaction_id: UUID,
    says: tuple[str, str],
    waits: bool,
) -> None:
    if letter:
        chains.aside("mail", PLACES["d"], letter)
    began = monotonic()
    timeout = "'30 ms'" if waits else "'1 h'"
    assert chains.rows(WAIT.format(groups, transaction_id, timeout)) == [says]
    assert not waits or monotonic() - began >= 0.03
    assert chains.rows(WAIT.format(groups, transaction_id, "'-1 s'")) == [says]
    if says[1] == groups[0]:
        call = WAIT_FOR.format(groups[0], transaction_id, timeout)
        assert chains.value(call) == says[0]


def test_who_waits_looks_often_at_first_and_then_now_and_then(chains: Chains) -> None:
    """After 2 ms, 3 ms and so on, and every 50 ms in the end."""
    looks = (
        "select coalesce(sum(calls), 0)::int from pg_stat_xact_user_functions"
        " where funcname = 'chain_state'"
    )
    chains.run("set local track_functions = 'all'")
    before = chains.value(looks)
    assert chains.rows(WAIT.format(BOTH, NOBODY, "'200 ms'")) == [("unknown", "billing")]
    assert 6 <= chains.value(looks) - before <= 13


def test_a_transaction_that_was_rolled_back_is_not_waited_for(chains: Chains) -> None:
    with chains.other.transaction(force_rollback=True):
        xid = chains.other.execute("select pg_current_xact_id()::text").fetchall()[0][0]
        running = chains.derived(int(xid))
        assert chains.value(WAIT_FOR.format("billing", running, "'1 ms'")) == "open"
    assert chains.value(WAIT_FOR.format("billing", running, "'1 h'")) == "rolled-back"


def test_nobody_waits_for_ever(chains: Chains) -> None:
    needs = ("GL400", "to wait needs a timeout")
    assert chains.twins.refused(WAIT.format(BOTH, FIRST, "null")) == needs
    assert chains.twins.refused(WAIT_FOR.format("billing", FIRST, "null")) == needs
    itself = ("GL409", "commit first: this transaction cannot wait for itself")
    assert chains.twins.refused(WAIT.format(BOTH, chains.own(), "'0 s'")) == itself
    xid = int(chains.own().hex[17:], 16)
    other = chains.derived(xid, 2)
    assert chains.rows(WAIT.format(BOTH, other, "'0 s'")) == [("unknown", "billing")]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_who_would_not_see_it_does_not_wait(chains: Chains, level: str) -> None:
    conn = chains.other
    with conn.transaction(force_rollback=True):
        conn.execute(f"set transaction isolation level {level}")
        query = WAIT.format(BOTH, FIRST, "'1 s'")
        with pytest.raises(psycopg.Error, match=NOT_ISOLATED.format(level.upper())):
            conn.execute(query)
