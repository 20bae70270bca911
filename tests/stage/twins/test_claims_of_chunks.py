"""Whatever reads events for a handler locks their chunk alone, also with plans that a session might keep.

What has the default chunk locked for as long as a handler takes lets no other chunk be made.
"""

from __future__ import annotations

import pytest

from stage.twins.test_claims import TOKEN
from support.twins import Twins

LOCKED = (
    "select array_agg(l.relation::regclass::text) from pg_locks l join pg_inherits i on i.inhrelid = l.relation"
    " where i.inhparent = 'gapless.outbox_message_t'::regclass and l.pid = pg_backend_pid()"
)
IDS = (
    "(select s.message_ids from gapless.log_segment s"
    " where s.topic_id = {orders} and s.partition_id = 1 and s.base_offset = 1)"
)
CALLS = {
    "claim_events": "claim_events('billing', {orders}, 1, 5, '{token}', 100, 100, null)",
    "claim_events, by user": "claim_events('billing', {orders}, 1, 5, '{token}', 100, 100, null, 'user')",
    "claim_kept": "claim_kept('billing', {other}, 1, 5, '{token}', 100, 100, null)",
    "claim_kept, nothing": "claim_kept('billing', {other}, 1, 5, '{token}', 100, 0, null)",
    "match_events": "match_events('billing', {orders}, 1, {ids})",
    "condition_events": "condition_events('billing', {orders}, {ids}, 1)",
    "take_next": "take_next('sender', {orders}, 1, {lease}, 4, 4, 1)",
    "take_next, one": "take_next('sender', {orders}, 1, {lease}, 4, 1, null)",
    "range_events": "range_events({orders}, 1, 2, 5)",
    "set_aside": "set_aside('billing', {orders}, 1, 1, {ids}, 'parked', 'no', 'no')",
    "unit_keys": "unit_keys('billing', {orders}, 1, {ids}, '{{1,1,3}}')",
    "hand_out": "hand_out('billing', {orders}, 1, 5, '{token}', 3, 3, 'w')",
    "read": "read('orders', 1)",
    "wait_reply": "wait_reply('orders', gen_random_uuid(), '1 ms')",
}


@pytest.mark.parametrize("name", CALLS)
def test_only_the_chunk_of_the_events_is_locked(twins: Twins, name: str) -> None:
    twins.conn.execute("select gapless.set_filter('billing', 'other', '{*}')")
    twins.conn.execute("update gapless.consumer_offsets set epoch = 5, token = %s", [TOKEN])
    lease = twins.leases["sender", "orders", 1]
    place = {**twins.topic_ids, "token": TOKEN, "lease": lease}
    call = CALLS[name].format(**place, ids=IDS.format(**place))
    for _ in range(8):
        with twins.undone():
            twins.conn.execute(f"select from gapless.{call}".encode())
            assert twins.value("select current_setting('plan_cache_mode')") == "auto"
            assert twins.value(LOCKED) == (
                None if name == "wait_reply" else ["gapless.outbox_message_1"]
            )
