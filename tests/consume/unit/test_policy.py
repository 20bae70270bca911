"""What becomes of a unit that failed, as a pure function."""

from hypothesis import given
from hypothesis import strategies as st

import gapless
from gapless.consume.verdict.policy import BLOCK_RETRY_S, Policy, Verdict, judge

DELAYS = st.lists(st.floats(0, 1e6), max_size=5).map(tuple)
POLICIES = st.builds(
    Policy,
    on_failure=st.sampled_from(["dead-letter", "retry", "park-key", "block"]),
    retry_delays_s=DELAYS,
)
ERROR = ValueError("no")


@given(POLICIES, st.integers(1, 10))
def test_the_policy_says(policy: Policy, failed: int) -> None:
    verdict = judge(policy, ERROR, failed)
    if policy.on_failure == "dead-letter":
        assert verdict == Verdict(state="dead")
    elif policy.on_failure == "block":
        assert verdict == Verdict(state="block", retry_after_s=BLOCK_RETRY_S)
    elif failed <= len(policy.retry_delays_s):
        delay = policy.retry_delays_s[failed - 1]
        assert verdict == Verdict(state="waiting", retry_after_s=delay)
    else:
        assert verdict == Verdict(state="dead")


@given(POLICIES, st.integers(1, 10), st.booleans())
def test_the_handler_has_the_last_word(policy: Policy, failed: int, redriven: bool) -> None:
    def say(wish: Exception) -> Verdict:
        return judge(policy, wish, failed, redriven=redriven)

    assert say(gapless.Skip()) == Verdict(state="skip")
    assert say(gapless.Retry(after=7)) == Verdict(state="waiting", retry_after_s=7)
    assert say(gapless.DeadLetter("bad")) == Verdict(state="dead")


@given(POLICIES, st.integers(1, 10))
def test_what_a_person_redrives_dies_again_at_once(policy: Policy, failed: int) -> None:
    assert judge(policy, ERROR, failed, redriven=True) == Verdict(state="dead")
