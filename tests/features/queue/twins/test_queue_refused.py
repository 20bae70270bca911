"""Answers for a unit that count no more, and times that are none: refused, and nothing is changed."""

import pytest

from support.twin_queues import HELD, HERE, PLACES, letter, letters, note, noted
from support.twins import Twins

TOKEN, OTHER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
REFUSED = (
    "the receipt counts no more: another took the events, or they were answered for ({receipt})"
)
ANSWERS = {
    "acknowledge": "acknowledge_receipt('{receipt}')",
    "begin": "begin_receipt('{receipt}')",
    "release": "release_receipt('{receipt}')",
    "extend": "extend_receipt('{receipt}', '2 h')",
    "fail": "fail_receipt('{receipt}', null, 'waiting', 'bad', 'trace')",
}
UNITS = "select jsonb_agg(to_jsonb(d) order by group_id, topic_id, partition_id) from gapless.dead_letter d"


@pytest.mark.few(5)
@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize(("first", "token"), [(5, OTHER), (6, TOKEN)])
def test_a_unit_that_another_took_is_not_answered_for(
    twins: Twins, answer: str, first: int, token: str
) -> None:
    """Each has one at 5, under one token; the receipt is of an earlier time, or of a unit that is gone."""
    for place in PLACES:
        letter(twins, place, 5, token=TOKEN)
    before = twins.value(UNITS)
    receipt = f"L{twins.leases[HERE]}:{first}:{first}:{token}"
    call = f"select gapless.{ANSWERS[answer].format(receipt=receipt)}"
    assert twins.refused(call) == ("GL003", REFUSED.format(receipt=receipt))
    assert twins.value(UNITS) == before


@pytest.mark.parametrize("visibility", ["0 s", "-1 s", "367 days", "9000 years", None])
def test_a_receipt_is_not_kept_for_no_time(twins: Twins, visibility: str | None) -> None:
    """Above zero, and not forever."""
    note(twins, HERE, [(1, 4, HELD)])
    twins.conn.execute("update gapless.queue_range set token = %s", [TOKEN])
    letter(twins, HERE, 5, token=TOKEN)
    lease = twins.leases[HERE]
    for receipt in (f"R{lease}:1:4:{TOKEN}", f"L{lease}:5:5:{TOKEN}"):
        for extend in ("extend_receipt(%s, %s)", "extend('sender', 'orders', %s, %s)"):
            state, text = twins.refused(f"select gapless.{extend}", [receipt, visibility])
            assert (state, text[:38]) == ("GL400", "visibility is a time above 0 s, at mos")
    assert noted(twins) == [(1, 4, HELD, 1, "who")]
    assert letters(twins, HERE, "next_attempt_ts < clock_timestamp()") == [(True,)]
