"""How long a partition waits for its database, as a pure class."""

from gapless.consume.verdict.patience import PATIENCE_BACK_S, PATIENCE_S, Patience


def test_it_lasts_so_long_from_the_first_error_on() -> None:
    patience = Patience()
    assert patience.lasts(100.0)
    assert patience.lasts(100.0 + PATIENCE_S - 1)
    assert not patience.lasts(100.0 + PATIENCE_S)


def test_it_is_there_again_when_there_was_no_error_for_long() -> None:
    patience = Patience()
    patience.lasts(0.0)
    lost_s = PATIENCE_S + 1
    assert not patience.lasts(lost_s)
    lost_s += PATIENCE_BACK_S - 1
    assert not patience.lasts(lost_s), "each one more keeps it away"
    lost_s += PATIENCE_BACK_S
    assert not patience.lasts(lost_s), "not before it is over"
    assert patience.lasts(lost_s + PATIENCE_BACK_S + 1)
