"""What the rooms share: something made once for the tests of a file, and taken back after each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeVar

import pytest
from psycopg import Connection


class InOneSession(Protocol):
    @property
    def conn(self) -> Connection: ...


T = TypeVar("T", bound=InOneSession)


@pytest.fixture
def world(shared: T) -> Iterator[T]:
    """What the file's `shared` made, as it was made; what a test does to it is rolled back."""
    with shared.conn.transaction(force_rollback=True):
        yield shared
