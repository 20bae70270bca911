"""chain_units(): the units of a chain and what each came of, of two chains that are alike."""

from typing import Any
from uuid import UUID

import pytest

from support.chains import (
    FIRST,
    FIRSTS,
    NOBODY,
    PLACES,
    SECOND,
    SECONDS,
    THIRD,
    THIRDS,
    Chains,
    cause_id,
)

ALL = "select * from gapless.chain_units('{}'{})"
CHAINS = {FIRSTS: FIRST, SECONDS: SECOND, THIRDS: THIRD}


def units(chains: Chains, transaction_id: UUID, more: str = "") -> list[dict[str, Any]]:
    rows = chains.query(ALL.format(transaction_id, more))
    for row in rows:
        row.pop("published_ts")
    return rows


@pytest.mark.parametrize(("names", "root"), CHAINS.items())
@pytest.mark.parametrize("nth", [0, -1, -2])
def test_the_units_of_a_chain(chains: Chains, names: str, root: UUID, nth: int) -> None:
    """Whichever of them is asked for, also one that did not name itself; and the chain stays apart."""
    asked = chains.told(names[nth], root)["published_as"]
    assert units(chains, asked) == [chains.told(name, asked) for name in names]


def test_the_units_of_a_chain_that_did_not_name_itself(chains: Chains) -> None:
    asked = chains.unnamed["i"]
    assert units(chains, asked) == [chains.told(name, asked) for name in "ij"]
    assert units(chains, NOBODY) == []
    xid = int(asked.hex[17:], 16)
    other = units(chains, chains.derived(xid, 2))
    assert other == []


def test_when_a_unit_was_published(chains: Chains) -> None:
    rows = chains.query(ALL.format(FIRST, ""))
    for row, name in zip(rows, FIRSTS, strict=True):
        first = "select min(created_ts) from gapless.outbox_message_t where id = any (array[{}])"
        assert row["published_ts"] == chains.value(
            first.format(", ".join(map(str, chains.ids[name])))
        )


def test_what_has_no_offset_yet_is_one_unit_for_each_cause(chains: Chains) -> None:
    for cause in ("billing/orders/1@9", "billing/orders/1@9", "mail/orders/2@9"):
        chains.publish_late("orders", 2, cause, of=FIRST)
    late = units(chains, FIRST)[len(FIRSTS) :]
    told = [
        (row["parent_id"], row["cause_group"], row["partition_id"], row["first_offset"], row["last_offset"],
         row["events"], row["event_types"], row["is_asked"], row["is_dropped"])
        for row in late
    ]  # fmt: skip
    assert told == [
        (chains.ids["a"][0], "billing", None, None, None, 2, ["late"], False, False),
        (chains.ids["b"][0], "mail", None, None, None, 1, ["late"], False, False),
    ]


# What a cause says, of an event that is published behind all; whose child it is.
COMES_OF: list[tuple[str, str | None, bool]] = [
    ("billing/orders/1@9", "a", True), ("billing/orders/1@9..10", "a", True), ("billing/orders/1@10", None, True),
    ("billing/orders/1@9~2", None, True), ("billing/orders/2@9", "b", True), ("billing/nowhere/1@9", None, False),
    ("billing/other/1@9", "c", True), ("billing/orders/3@9", None, True), ("what I did", None, False),
]  # fmt: skip


@pytest.mark.parametrize(("cause", "parent", "is_one"), COMES_OF)
def test_what_a_unit_came_of(chains: Chains, cause: str, parent: str | None, is_one: bool) -> None:
    chains.publish_late("orders", 2, cause, of=FIRST)
    *before, row = units(chains, FIRST)
    assert before == [chains.told(name, FIRST) for name in FIRSTS]
    assert row["parent_id"] == (chains.ids[parent][0] if parent else None)
    assert row["cause"] == cause
    assert (row["cause_topic_id"] is not None) is is_one


@pytest.mark.parametrize("cause", ["billing/other/0@9", "billing/orders/1@9"])
def test_nothing_comes_of_what_was_published_after_it(chains: Chains, cause: str) -> None:
    """Nor of itself. A producer may write what it likes: no circle can be made of it."""
    chains.run(
        f"update gapless.outbox_message_t set cause = '{cause}', correlation = '{FIRST}'"
        f" where id = any (array{chains.ids['a']})"
    )
    assert units(chains, FIRST)[0]["parent_id"] is None


def test_what_has_neither_key_nor_type(chains: Chains) -> None:
    chains.run(
        "insert into gapless.outbox_message_t (topic_id, payload, cause, correlation)"
        f" values ({{orders}}, '1', 'x', '{FIRST}')"
    )
    chains.other.execute("select pg_current_xact_id()")  # a later one has ended
    row = units(chains, FIRST)[-1]
    assert (row["cause"], row["event_types"], row["keys"]) == ("x", [], [])


def test_an_id_in_the_middle_is_nobody_s_correlation(chains: Chains) -> None:
    asked = cause_id("billing/orders/1@9")
    chains.publish_late("orders", 2, "x", of=asked)
    assert units(chains, asked) == [chains.told(name, asked) for name in FIRSTS]


def test_an_xid_that_is_not_given_yet_came_from_another_cluster(chains: Chains) -> None:
    chains.publish_late("other", 0, of=None)
    own = "select pg_snapshot_xmax(pg_current_snapshot())::text"
    xid = int(chains.value(own))
    chains.run(f"update gapless.outbox_message_t set xid = '{xid}' where id = {chains.ids['i'][0]}")
    (row,) = units(chains, chains.derived(xid))
    assert (row["first_offset"], row["is_asked"]) == (13, True)


def test_dead_letters_of_others_are_of_other_chains(chains: Chains) -> None:
    """Also where they named themselves like the root, and came of another one."""
    for offset, correlation, transaction_id in ((8, "null", NOBODY), (7, f"'{SECOND}'", FIRST)):
        chains.aside("mail", ("orders", 2, offset, offset), "dead", transaction_id)
        chains.run(
            f"update gapless.dead_letter_event set message_id = 99999{offset}, correlation = {correlation}"
            f" where c_offset = {offset}"
        )
    asked = cause_id("billing/orders/1@9")
    assert units(chains, asked) == [chains.told(name, asked) for name in FIRSTS]


def test_events_of_another_chain_that_only_have_its_id(chains: Chains) -> None:
    """What named itself like the root, and came of another chain, is of that one, unless it was asked for."""
    chains.publish(
        "late", "orders", 2, ["late"], "billing/orders/1@11", SECOND, transaction_id=FIRST
    )
    chains.other.execute("select pg_current_xact_id()")  # a later one has ended
    late = chains.ids["late"][-1]
    ids = [row["first_id"] for row in units(chains, FIRST)]
    assert ids == sorted([*(chains.ids[name][0] for name in FIRSTS + SECONDS), late])
    asked = cause_id("billing/orders/1@9")
    ids = [row["first_id"] for row in units(chains, asked)]
    assert ids == [chains.ids[name][0] for name in FIRSTS]


@pytest.mark.parametrize("groups", [["billing"], ["billing", "mail"]])
def test_what_retention_dropped_is_known_from_dead_letters(
    chains: Chains, groups: list[str]
) -> None:
    """Each once, however many groups have it; and what the log has is told by the log alone."""
    for group in groups:
        chains.drop(group, "a", None, None)
        chains.drop(group, "d", FIRST, "billing/orders/1@9")
        chains.aside(group, PLACES["b"], "dead", FIRST)
        chains.run(
            f"update gapless.dead_letter_event set message_id = {chains.ids['b'][0]} where partition_id = 2"
        )
        chains.aside(group, PLACES["h"], "dead", cause_id("billing/orders/1@11"))
        chains.run(
            f"update gapless.dead_letter_event set message_id = 999999, correlation = '{SECOND}' where c_offset = 11"
        )
    kept = {"is_dropped": True, "event_types": ["kept"], "keys": ["host"]}
    told = [chains.told(name, FIRST) | (kept if name in "ad" else {}) for name in FIRSTS]
    assert units(chains, FIRST) == told
    asked = cause_id("billing/orders/1@9")
    assert [row["first_id"] for row in units(chains, asked)] == [row["first_id"] for row in told]


def test_no_more_events_are_looked_at_than_were_asked_for(chains: Chains) -> None:
    """What was asked for comes first."""
    asked = cause_id("billing/orders/1@9")
    for most in (1, 2, 3):
        rows = units(chains, asked, f", {most}")
        assert sum(row["events"] for row in rows) <= 2 * most
        assert any(row["is_asked"] for row in rows)
    rows = units(chains, FIRST, ", 100")
    assert [row["first_id"] for row in rows] == [chains.ids[name][0] for name in FIRSTS]
