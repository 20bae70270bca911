"""When an endpoint may be called: rate, Retry-After, circuit."""

import pytest

from gapless.features.webhooks.pace import (
    FAILURES_MAX,
    HOLD_S_MAX,
    PROBE_EVERY_S,
    Circuit,
    RequestPace,
)
from gapless.features.webhooks.post import retry_after_s


def test_the_circuit_opens_after_ten_failures_in_a_row() -> None:
    circuit = Circuit()
    for _ in range(FAILURES_MAX - 1):
        assert not circuit.failed(0.0)
    circuit.succeeded()
    assert [circuit.failed(5.0) for _ in range(FAILURES_MAX)] == [False] * 9 + [True]
    assert circuit.is_open
    assert not circuit.failed(5.0)  # it is open already
    circuit.succeeded()
    assert not circuit.is_open


def test_an_open_circuit_lets_one_probe_through_at_a_time() -> None:
    circuit = Circuit()
    for _ in range(FAILURES_MAX):
        circuit.failed(0.0)
    assert not circuit.may_probe(PROBE_EVERY_S - 0.1)
    assert circuit.may_probe(PROBE_EVERY_S)
    circuit.is_probing = True
    assert not circuit.may_probe(PROBE_EVERY_S * 9)
    circuit.is_probing = False
    circuit.wait(100.0)
    assert not circuit.may_probe(100.0 + PROBE_EVERY_S - 1)


def test_a_rate_is_even() -> None:
    pace = RequestPace()
    assert [pace.turn_s(100.0, 10.0, 60.0) for _ in range(3)] == pytest.approx([0.0, 0.1, 0.2])
    assert pace.turn_s(101.0, 10.0, 60.0) == 0.0
    assert pace.turn_s(101.0, None, 60.0) == 0.0


def test_who_would_wait_too_long_takes_no_turn() -> None:
    pace = RequestPace()
    assert pace.turn_s(0.0, 0.1, 5.0) == 0.0
    assert pace.turn_s(0.0, 0.1, 5.0) is None
    assert pace.turn_s(0.0, 0.1, 10.0) == 10.0


def test_a_hold_is_bounded() -> None:
    pace = RequestPace()
    pace.hold(10.0, 5.0)
    assert (pace.held_s(10.0), pace.held_s(14.0), pace.held_s(16.0)) == (5.0, 1.0, 0.0)
    pace.hold(10.0, 1e18)
    assert pace.held_s(10.0) == HOLD_S_MAX


@pytest.mark.parametrize(
    ("said", "is_s"),
    [
        (None, None),
        ("120", 120.0),
        ("0", 0.0),
        ("9" * 500, 999999999.0),
        ("-1", None),
        ("1.5", None),
        ("", None),
        ("soon", None),
        ("٣", None),
        ("Thu, 25 Feb 2021 15:02:15 GMT", 5.0),
        ("Thu, 25 Feb 2021 15:00:00 GMT", 0.0),
        ("Thu, 99 Feb 2021 15:02:15 GMT", None),
    ],
)
def test_retry_after(said: str | None, is_s: float | None) -> None:
    assert retry_after_s(said, now_s=1614265330.0) == is_s
