"""Which parameters of a test the default run leaves to --long."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import pytest

T = TypeVar("T")


def long_but(values: Iterable[T], *default: T) -> list[T | object]:
    """Return the values for parametrize(): those that are none of `default` are marked long."""
    return [
        value if value in default else pytest.param(value, marks=pytest.mark.long)
        for value in values
    ]
