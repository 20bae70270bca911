"""Tables to capture: of a file that says no more, the two of ledger.py and those of its MORE."""

from collections.abc import Iterator

import pytest

from features.capture.ledger import CaptureBook
from gapless.db.connect import connect


@pytest.fixture(scope="module")
def shared(module_dsn: str, request: pytest.FixtureRequest) -> Iterator[CaptureBook]:
    with connect(module_dsn, role="test") as conn:
        yield CaptureBook(conn, request.module.MORE)


@pytest.fixture
def ledger(shared: CaptureBook) -> Iterator[CaptureBook]:
    with shared.undone():
        yield shared


@pytest.fixture
def twin(ledger: CaptureBook) -> CaptureBook:
    """Twin is captured, with a trigger that is off."""
    ledger.capture("public.twin", "other", key="{a}", columns=["id", "a"], old="none")
    ledger.run("alter table public.twin disable trigger gapless_capture_update")
    return ledger
