"""What led to an error that a handler raised: followed as a traceback shows it, and to an end."""

from itertools import islice

from gapless.consume.user.call import CAUSES_MAX, _causes


def test_errors_that_cause_each_other_are_met_once() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert list(islice(_causes(first), 9)) == [first, second]


def test_a_chain_is_followed_so_far() -> None:
    errors = [ValueError(number) for number in range(CAUSES_MAX + 1)]
    for error, cause in zip(errors, errors[1:], strict=False):
        error.__cause__ = cause
    assert list(islice(_causes(errors[0]), 999)) == errors[:CAUSES_MAX]


def test_what_a_traceback_leaves_out_led_to_nothing() -> None:
    """`raise … from None`; a cause that is said goes before what happened meanwhile."""
    error, cause, meanwhile = ValueError("error"), ValueError("cause"), ValueError("meanwhile")
    error.__context__ = meanwhile
    assert list(_causes(error)) == [error, meanwhile]
    error.__cause__ = cause
    assert list(_causes(error)) == [error, cause]
    error.__cause__ = None
    assert list(_causes(error)) == [error]
