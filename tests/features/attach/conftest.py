"""Tables to attach: of a file that says no more, the two of boxes.py and those of its MORE."""

from collections.abc import Iterator

import pytest

from features.attach.boxes import Boxes
from features.attach.shop import PlacedBoxes
from gapless.db.connect import connect


@pytest.fixture(scope="module")
def shared(module_dsn: str, request: pytest.FixtureRequest) -> Iterator[Boxes]:
    with connect(module_dsn, role="test") as conn:
        yield Boxes(conn, request.module.MORE)


@pytest.fixture
def boxes(shared: Boxes) -> Iterator[Boxes]:
    with shared.undone():
        yield shared


@pytest.fixture(scope="module")
def placed(module_dsn: str) -> Iterator[PlacedBoxes]:
    with connect(module_dsn, role="test") as conn:
        yield PlacedBoxes(conn)


@pytest.fixture
def shop(placed: PlacedBoxes) -> Iterator[PlacedBoxes]:
    with placed.undone():
        yield placed
