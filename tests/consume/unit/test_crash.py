"""Why a unit that ended its workers is not called any more, in one line."""

import pytest

from gapless.consume.verdict.failure import crash_reason


@pytest.mark.parametrize(
    ("former_end", "told"),
    [("", ""), ("signal SIGKILL", "; the last one: signal SIGKILL")],
)
def test_how_the_last_one_ended_is_told_where_it_is_known(former_end: str, told: str) -> None:
    began = "its worker died, or lost its session, 3 times while handling it"
    assert crash_reason(3, former_end) == began + told
