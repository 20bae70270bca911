"""Twins whose subscriptions missed events."""

from collections.abc import Iterator

import pytest

from support.twins import Twins

# A letter of the second run's unit in each partition, which ben matched; his is the last event alone.
LETTERS = (
    "select gapless.set_aside(s.group_id, s.topic_id, p.partition_id, 4, p.message_ids, %(state)s, 'failed',"
    " 'trace', _attempts => 2, _retry_after => '1 h', _kept => array[6],"
    " _matched => array[s.subscription_id::text])"
    " from gapless.subscription s join gapless.log_segment p using (topic_id)"
    " where s.name = 'ben' and p.base_offset = 4"
)


@pytest.fixture
def twins(settled: Twins) -> Iterator[Twins]:
    with settled.undone():
        settled.conn.execute("set local statement_timeout = '3s'")  # what goes on forever ends
        yield settled
