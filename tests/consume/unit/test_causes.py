"""What led to an error that a handler raised: followed as a traceback shows it, and to an end."""

from psycopg import Error

from gapless import Retry
from gapless.consume.user.call import CAUSES_MAX, database_errors
from gapless.errors import UnreachableError


def test_errors_that_cause_each_other_are_met_once() -> None:
    first, second = Error("first"), Error("second")
    first.__cause__, second.__cause__ = second, first
    assert database_errors(first) == [first, second]


def test_a_chain_is_followed_so_far() -> None:
    errors = [Error(number) for number in range(CAUSES_MAX + 1)]
    for error, cause in zip(errors, errors[1:], strict=False):
        error.__cause__ = cause
    assert database_errors(errors[0]) == errors[:CAUSES_MAX]


def test_what_a_traceback_leaves_out_led_to_nothing() -> None:
    """`raise … from None`; a cause that is said goes before what happened meanwhile."""
    error, cause, meanwhile = Error("error"), Error("cause"), Error("meanwhile")
    error.__context__ = meanwhile
    assert database_errors(error) == [error, meanwhile]
    error.__cause__ = cause
    assert database_errors(error) == [error, cause]
    error.__cause__ = None
    assert database_errors(error) == [error]


def test_only_errors_of_a_database_are_told_and_none_of_a_wish() -> None:
    error, lost, ours = ValueError("error"), Error("lost"), UnreachableError("no route")
    error.__cause__, lost.__cause__ = lost, ours
    assert database_errors(error) == [lost, ours]
    wish = Retry("no", after=3)
    wish.__cause__ = lost
    assert database_errors(wish) == database_errors("words") == []
