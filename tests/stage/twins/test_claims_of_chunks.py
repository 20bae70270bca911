"""claim_events(), claim_kept(): of many chunks only those are looked at that have what is claimed.

A plan that is kept locks all of them, and to plan takes longer than to run: it is kept while there are few.
"""

from __future__ import annotations

import pytest

from stage.twins.test_claims import TOKEN
from support.twins import Twins

CHUNKS = "select count(*) from pg_inherits where inhparent = 'gapless.outbox_message_t'::regclass"
LOCKED = (
    "select count(*) from pg_locks l join pg_inherits i on i.inhrelid = l.relation"
    " where i.inhparent = 'gapless.outbox_message_t'::regclass and l.pid = pg_backend_pid()"
)
CALLS = {
    "claim_events": "select from gapless.claim_events('billing', %s, 1, 5, %s, 100, 100, null)",
    "claim_kept": "select from gapless.claim_kept('billing', %s, 1, 5, %s, 100, 100, null)",
    "nothing kept": "select from gapless.claim_kept('billing', %s, 1, 5, %s, 100, 0, null)",
}


CALLED = pytest.mark.parametrize("name", CALLS)


@pytest.fixture(scope="module")
def chunks(shared: Twins) -> Twins:
    """There are many; all events are in one of them."""
    shared.conn.execute(
        "select gapless.configure_chunks(c.chunk_events, 64) from gapless.log_config c"
    )
    shared.conn.execute("select gapless.create_chunks()")
    return shared


def locked(twins: Twins, name: str) -> int:
    """How many chunks a call has locked when it is over; the group has a filter in its other topic."""
    twins.conn.execute("select gapless.set_filter('billing', 'other', '{*}')")
    twins.conn.execute("update gapless.consumer_offsets set epoch = 5, token = %s", [TOKEN])
    topic = "orders" if name == "claim_events" else "other"
    twins.conn.execute(CALLS[name].encode(), [twins.topic_ids[topic], TOKEN])
    assert twins.value("select current_setting('plan_cache_mode')") == "auto"
    return int(twins.value(LOCKED))


@CALLED
def test_of_many_only_one_is_locked(chunks: Twins, twins: Twins, name: str) -> None:
    assert chunks is twins
    assert twins.value(CHUNKS) > 60
    assert locked(twins, name) == 1
