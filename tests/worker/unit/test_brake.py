"""When a partition slows down, as a pure class: whatever turns there were before."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.worker.failure_backoff import (
    BRAKE_S_MAX,
    BRAKE_S_MIN,
    BRAKE_UNITS,
    GRACE_S,
    FailureBackoff,
    is_like_bad_deploy,
)

KEYS_MIN = 10
TURN_S = 0.5
TURNS = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 0, 1]),  # handled
        st.integers(0, 9),  # failed
        st.integers(1, BRAKE_UNITS),  # keys of these
        st.sampled_from([0.0, 0.0, 1.0, GRACE_S]),  # pause before the turn
        st.sampled_from([False, False, False, True]),  # others handle meanwhile
    )
)

# failed in a row, for how long, how long ago the program handled another (None: never); a bad deploy?
SCENES = {
    "a program that has handled nothing yet": (BRAKE_UNITS, 1, None, True),
    "few failures": (BRAKE_UNITS - 1, 1000, None, False),
    "other partitions are healthy": (1000, 1000, 1, False),
    "others were, when it began": (1000, 30, 30, False),
    "a burst in the only partition": (1000, GRACE_S - 1, GRACE_S, False),
    "what all depends on is away": (1000, GRACE_S, GRACE_S + 1, True),
    "after a quiet night": (BRAKE_UNITS, 1, 36_000, False),
}


@pytest.mark.parametrize("name", SCENES)
def test_the_rest_of_the_program_tells_a_bad_deploy_from_bad_events(name: str) -> None:
    failed, for_s, ago_s, expected = SCENES[name]
    now_s = 100_000.0
    handled_s = 0.0 if ago_s is None else now_s - ago_s
    found = is_like_bad_deploy(
        failed=failed, since_s=now_s - for_s, now_s=now_s, handled_s=handled_s
    )
    assert found == expected


@given(st.integers(0, BRAKE_UNITS), TURNS)
def test_it_is_on_when_so_many_failed_of_so_many_keys_as_after_a_bad_deploy(
    keys_min: int, turns: list[tuple[int, int, int, float, bool]]
) -> None:
    brake = FailureBackoff(keys_min)
    failed = before_s = since_s = handled_s = 0.0
    now_s = 1000.0
    is_on = False
    for handled_now, failed_now, keys, pause_s, others in turns:
        began_s = now_s + pause_s
        now_s = began_s + TURN_S
        if handled_now or others:
            handled_s = now_s
        asked: list[int] = []
        rest_s = brake.note(
            handled=handled_now,
            failed=failed_now,
            turn_s=(began_s, now_s),
            handled_s=handled_s,
            keys=lambda asked=asked, keys=keys: asked.append(keys) or (keys, 0.0),
        )
        if failed_now and not failed:
            since_s = began_s
        failed = 0 if handled_now else failed + failed_now
        if handled_now or failed_now:
            like = is_like_bad_deploy(
                failed=int(failed), since_s=since_s, now_s=now_s, handled_s=handled_s
            )
            assert bool(asked) == (like and keys_min > 0), "it is a query"
            is_on = like and keys >= keys_min > 0
        assert brake.is_on == is_on
        assert bool(rest_s) == (brake.is_on and failed_now > 0)
        if rest_s:
            assert rest_s == min(max(2 * before_s, BRAKE_S_MIN), BRAKE_S_MAX)
        before_s = rest_s or (before_s if brake.is_on else 0.0)


def test_it_says_why_since_when_until_when_and_what_helps() -> None:
    brake = FailureBackoff(KEYS_MIN)
    for handled_s, now_s in ((0.0, 1000.0), (990.0, 1000.0 + GRACE_S)):
        brake.note(
            handled=0,
            failed=BRAKE_UNITS,
            turn_s=(1000.0, now_s),
            handled_s=handled_s,
            keys=lambda: (12, datetime(2026, 1, 2, 0, 0, 30, tzinfo=UTC).timestamp()),
        )
        said = brake.explain(30.0)
        since = "2026-01-01 23:59:30" if handled_s else "2026-01-02 00:00:30"
        assert said.startswith("slowed down until 00:01:00 UTC, as after a bad deploy: mend ")
        assert f"since {since} UTC {brake.failed} in a row failed, the last 20 of 12 keys" in said
        assert said.endswith("since then" if handled_s else "since it started")
