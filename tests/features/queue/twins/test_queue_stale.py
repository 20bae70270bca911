"""A receipt that is old, or old in part, and times that are none: refused, and nothing of others is changed."""

import pytest

from features.queue.twins.answers import CALLS, OTHER, TOKEN
from support.twin_queues import ELSEWHERE, HELD, HERE, PLACES, letter, letters, note, noted
from support.twins import Twins

REFUSED = (
    "the receipt counts no more: another took the events, or they were answered for ({receipt})"
)
UNITS = "select jsonb_agg(to_jsonb(d) order by group_id, topic_id, partition_id) from gapless.dead_letter d"


def call(how: str, receipt: str) -> str:
    text = CALLS[how][0]
    given = [f"'{receipt}'", "null"]
    return f"select gapless.{text.format(*(given if '{0}' in text else [', '.join(given)]))}"


@pytest.mark.parametrize("how", CALLS)
def test_an_event_that_was_given_out_again_stays_another_s(twins: Twins, how: str) -> None:
    """Between those that the receipt holds still; and so does what is elsewhere, and behind it."""
    lease = twins.leases[HERE]
    for place in ELSEWHERE:
        note(twins, place, [(1, 1, HELD)], tries=3)
    letter(twins, HERE, 7, token=TOKEN, crashes=2)
    note(twins, HERE, [(1, 1, HELD), (2, 2, HELD), (3, 4, HELD)], tries=3)
    twins.conn.execute(
        "update gapless.queue_range set token = case first_offset when 2 then %s else %s end::uuid",
        [OTHER, TOKEN],
    )
    twins.conn.execute(call(how, f"R{lease}:1:4:{TOKEN}").encode())
    assert noted(twins)[1] == (2, 2, HELD, 3, "who")
    token = "select token::text from gapless.queue_range where lease_no = %s and first_offset = 2"
    assert twins.value(token, lease) == OTHER
    assert {tuple(noted(twins, place)) for place in ELSEWHERE} == {((1, 1, HELD, 3, "who"),)}
    assert letters(twins, HERE, "crashes, token::text")[-1] == (2, TOKEN)


@pytest.mark.parametrize("how", CALLS)
def test_a_unit_is_answered_for_beside_one_of_the_same_token(twins: Twins, how: str) -> None:
    lease = twins.leases[HERE]
    for first in (5, 6):
        letter(twins, HERE, first, token=TOKEN, crashes=2)
    twins.conn.execute(call(how, f"L{lease}:5:5:{TOKEN}").encode())
    columns = "first_offset, state, crashes, token::text, next_attempt_ts < now()"
    assert letters(twins, HERE, columns)[-1] == (6, "waiting", 2, TOKEN, True)


@pytest.mark.few(5)
@pytest.mark.parametrize("how", CALLS)
@pytest.mark.parametrize(("first", "token"), [(5, OTHER), (6, TOKEN)])
def test_a_unit_that_another_took_is_not_answered_for(
    twins: Twins, how: str, first: int, token: str
) -> None:
    """Each has one at 5, under one token; the receipt is of an earlier time, or of a unit that is gone."""
    for place in PLACES:
        letter(twins, place, 5, token=TOKEN)
    before = twins.value(UNITS)
    receipt = f"L{twins.leases[HERE]}:{first}:{first}:{token}"
    assert twins.refused(call(how, receipt)) == ("GL003", REFUSED.format(receipt=receipt))
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
