"""A receipt that is old, or old in part: what was given out again since is not answered for with it."""

import pytest

from features.queue.twins.answers import CALLS, OTHER, TOKEN
from support.twin_queues import ELSEWHERE, HELD, HERE, letter, letters, note, noted
from support.twins import Twins


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
