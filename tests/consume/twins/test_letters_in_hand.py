"""A unit of a queue group that a client has a receipt of: who redrives, discards or mends it, and what the receipt is then."""

import pytest

from support.twin_queues import HERE, letter
from support.twins import Twins

GROUP, TOPIC, PARTITION = HERE
RESERVE = "select receipt from gapless.reserve(%s, gapless.topic_id(%s), %s, 1, %s::interval, 'w', 'aside')"
PLACE = f"'{GROUP}', '{TOPIC}', {PARTITION}, 3"
REDRIVE = f"select gapless.redrive_letter({PLACE})"
DISCARD = f"select gapless.discard_letter({PLACE}, 'of no use')"
MEND = f"select gapless.mend_letter({PLACE}, '{{3}}', '{{new}}', '{{\"{{}}\"}}', '{{1}}')"
ACKNOWLEDGE = "select gapless.acknowledge_receipt(%s)"


def taken(twins: Twins, visibility: str = "1 hour") -> str:
    """Take the unit at offset 3; its receipt."""
    letter(twins, HERE, 3)
    return str(twins.value(RESERVE, *HERE, visibility))


@pytest.mark.parametrize(("call", "answer"), [(REDRIVE, "busy"), (DISCARD, "busy"), (MEND, "busy")])
def test_nobody_else_has_it_while_the_receipt_counts(twins: Twins, call: str, answer: str) -> None:
    receipt = taken(twins)
    changed = twins.changes(f"create temp table said on commit drop as {call} as it")
    assert all(name.startswith("guard_keys") for name in changed), changed
    assert twins.value("select it from said") == answer
    assert twins.value(ACKNOWLEDGE, receipt) == 1


def test_what_lapsed_is_redriven_and_its_receipt_is_void(twins: Twins) -> None:
    """Else it would be finished by whoever had it before, while another handles it."""
    receipt = taken(twins, "1 us")
    assert twins.value(REDRIVE) == "asked"
    assert twins.refused(ACKNOWLEDGE, [receipt])[0] == "GL003"


def test_what_was_discarded_and_mended_is_given_out_anew(twins: Twins) -> None:
    """The receipt of before would end what nobody has seen as it is now."""
    receipt = taken(twins, "1 us")
    said = [twins.value(call) for call in (DISCARD, MEND, REDRIVE)]
    assert said == ["discarded", "mended", "asked"]
    died = (
        "select died_ts is not null, token is null from gapless.dead_letter where first_offset = 3"
    )
    assert twins.conn.execute(died).fetchall() == [(True, True)]
    assert twins.refused(ACKNOWLEDGE, [receipt])[0] == "GL003"
    assert twins.value(ACKNOWLEDGE, twins.value(RESERVE, *HERE, "1 hour")) == 1


@pytest.mark.parametrize("short", [("{new}", "{1,2}"), ("{a,b}", "{1}"), ("{a,b}", None)])
def test_what_is_mended_is_said_of_every_event(twins: Twins, short: tuple[str, str | None]) -> None:
    """What is left out would become null."""
    types, payloads = short
    letter(twins, HERE, 1, 2, state="dead")
    place = f"'{GROUP}', '{TOPIC}', {PARTITION}, 1"
    statement = f"select gapless.mend_letter({place}, '{{1,2}}', %s, '{{null,null}}', %s)"
    said = "of the 2 events each has an event type, headers and a payload, if only null"
    assert twins.refused(statement, [types, payloads]) == ("GL400", said)
