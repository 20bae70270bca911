"""When a partition slows down, as a pure class: whatever turns there were before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gapless.worker.brake import BRAKE_S_MAX, BRAKE_S_MIN, BRAKE_UNITS, Brake

TURNS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(1, BRAKE_UNITS)))
KEYS_MIN = 10


@given(st.integers(0, BRAKE_UNITS), TURNS)
def test_it_is_on_when_so_many_failed_of_so_many_keys_since_one_was_handled(
    keys_min: int, turns: list[tuple[int, int, int]]
) -> None:
    brake = Brake(keys_min)
    failed = before_s = 0.0
    is_on = False
    for handled_now, failed_now, keys in turns:
        rest_s = brake.note(handled=handled_now, failed=failed_now, keys=lambda keys=keys: keys)
        failed = 0 if handled_now else failed + failed_now
        if handled_now or failed_now:
            is_on = failed >= BRAKE_UNITS and keys >= keys_min > 0
        assert brake.is_on == is_on
        assert bool(rest_s) == (brake.is_on and failed_now > 0)
        if rest_s:
            assert rest_s == min(max(2 * before_s, BRAKE_S_MIN), BRAKE_S_MAX)
        before_s = rest_s or (before_s if brake.is_on else 0.0)


def test_the_rest_grows_to_its_bound_and_one_success_lifts_it() -> None:
    brake = Brake(KEYS_MIN)

    def note(**turn: int) -> float:
        return brake.note(**turn, keys=lambda: KEYS_MIN)

    rests = [note(handled=0, failed=BRAKE_UNITS) for _ in range(12)]
    assert rests == sorted(rests)
    assert (rests[0], rests[-1]) == (BRAKE_S_MIN, BRAKE_S_MAX)
    assert note(handled=1, failed=0) == 0.0
    assert note(handled=0, failed=BRAKE_UNITS - 1) == 0.0
    assert note(handled=0, failed=1) == BRAKE_S_MIN
