"""Twins, made once for the tests of a file; each leaves them as they were. Staff: with clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gapless.db.connect import connect
from support.staff import Staff
from support.twins import Twins


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Twins]:
    with connect(module_dsn, role="test") as conn:
        yield Twins(conn)


@pytest.fixture
def twins(shared: Twins) -> Iterator[Twins]:
    with shared.undone():
        yield shared


@pytest.fixture(scope="module")
def employed(shared: Twins) -> Staff:
    return Staff(shared)


@pytest.fixture
def staff(employed: Staff, twins: Twins) -> Staff:
    """A client of each ordered group, with all of it in hand."""
    assert employed.twins is twins
    employed.begin()
    return employed
