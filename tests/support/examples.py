"""The number of examples that Hypothesis tries: all with --long, a sixth of them without."""

import pytest
from hypothesis import settings

_SHARE = 6
_FEWEST = 5
_DEFAULT = 100  # Hypothesis's own
_is_long = False


def configure(config: pytest.Config) -> None:
    """Note the kind of this run, before any test is imported."""
    global _is_long  # noqa: PLW0603 - decorators read it
    _is_long = config.getoption("--long") or config.getoption("--soak")
    # No deadline: a slow example on a busy machine says nothing about the code.
    settings.register_profile("gapless", max_examples=examples(_DEFAULT), deadline=None)
    settings.load_profile("gapless")


def examples(long: int) -> int:
    """Return the number of examples to try; long: the number with --long."""
    return long if _is_long else min(long, max(_FEWEST, long // _SHARE))
