"""How long is waited after failures in a row."""

import pytest

from gapless.worker import retries as module
from gapless.worker.retries import BACKOFF_S_MAX, Backoff, Retries


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "monotonic", lambda: 1000.0)


def _wait_s(backoff: Backoff, *, steady: bool = False) -> float:
    backoff.note(steady=steady)
    return round(backoff.due_s - 1000.0, 6)


def test_the_first_restart_is_immediate_and_the_next_ones_ever_later() -> None:
    backoff = Backoff()
    assert backoff.due_s == 0, "one that never failed waits for nothing"
    waits = [_wait_s(backoff) for _ in range(9)]
    assert waits == [0, 0.2, 0.4, 0.8, 1.6, 3.2, BACKOFF_S_MAX, BACKOFF_S_MAX, BACKOFF_S_MAX]


def test_one_that_had_got_on_begins_anew() -> None:
    backoff = Backoff()
    assert [_wait_s(backoff) for _ in range(3)] == [0, 0.2, 0.4]
    assert [_wait_s(backoff, steady=True), _wait_s(backoff)] == [0, 0.2]
    assert [_wait_s(backoff, steady=True), _wait_s(backoff, steady=True)] == [0, 0]


def test_a_retry_waits_longer_from_failure_to_failure_within_its_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("random.uniform", lambda _least, most: most)  # no jitter
    retries = Retries(1.0)
    waits = [retries.failed() for _ in range(7)]
    assert waits == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
    assert retries.failures == 7
    retries.succeeded()
    assert retries.failures == 0
    assert retries.failed() == pytest.approx(0.05)
