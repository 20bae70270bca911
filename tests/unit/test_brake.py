"""When a partition slows down, as a pure class: whatever turns there were before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gapless.worker.brake import BRAKE_S_MAX, BRAKE_S_MIN, BRAKE_UNITS, Brake

TURNS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)))


@given(TURNS)
def test_it_is_on_when_so_many_failed_since_one_was_handled(turns: list[tuple[int, int]]) -> None:
    brake = Brake()
    failed = before_s = 0.0
    for handled_now, failed_now in turns:
        rest_s = brake.note(handled=handled_now, failed=failed_now)
        failed = 0 if handled_now else failed + failed_now
        assert brake.is_on == (failed >= BRAKE_UNITS)
        assert bool(rest_s) == (brake.is_on and failed_now > 0)
        if rest_s:
            assert rest_s == min(max(2 * before_s, BRAKE_S_MIN), BRAKE_S_MAX)
        before_s = rest_s or (before_s if brake.is_on else 0.0)


def test_the_rest_grows_to_its_bound_and_one_success_lifts_it() -> None:
    brake = Brake()
    rests = [brake.note(handled=0, failed=BRAKE_UNITS) for _ in range(12)]
    assert rests == sorted(rests)
    assert (rests[0], rests[-1]) == (BRAKE_S_MIN, BRAKE_S_MAX)
    assert brake.note(handled=1, failed=0) == 0.0
    assert brake.note(handled=0, failed=BRAKE_UNITS - 1) == 0.0
    assert brake.note(handled=0, failed=1) == BRAKE_S_MIN
