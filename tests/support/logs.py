"""A log that the tests of a file share, and its state at the beginning of each."""

from collections.abc import Iterator

import pytest

from gapless.db.connect import connect
from gapless.log.sequence import sequence
from support.sequenced import SequencedLog


@pytest.fixture(scope="module")
def sequenced(module_dsn: str) -> Iterator[SequencedLog]:
    with connect(module_dsn, role="test") as conn, connect(module_dsn, role="other") as other:
        yield SequencedLog(conn, other)


@pytest.fixture
def still(sequenced: SequencedLog) -> SequencedLog:
    """Return the log without pending events and unrouted ids, the floor before the newest id."""
    for _ in range(3):
        sequenced.publish(sequenced.passing)
        sequence(sequenced.conn)
    sequenced.conn.execute("delete from gapless.unrouted")
    sequenced.conn.execute("update gapless.sequencer set has_unrouted = false")
    return sequenced
