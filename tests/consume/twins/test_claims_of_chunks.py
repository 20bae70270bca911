"""Whatever reads events for a handler locks their chunk alone, also with plans that a session might keep.

What has the default chunk locked for as long as a handler takes lets no other chunk be made: of what is in there
nothing stays locked, once somebody waits for it.
"""

from typing import Any

import pytest
from psycopg import Connection

from support.claims import TOKEN
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
    "deliver_units": "deliver_units('billing', {orders}, 1, 5, '{token}', 3, 3, 'w')",
    "read": "read('orders', 1)",
    "wait_reply": "wait_reply('orders', gen_random_uuid(), '1 ms')",
    "events_of": "events_of({ids})",
    "count_events": "count_events({ids})",
}
SAME = (
    "select array_agg(to_jsonb(r) - '{{claim_xid,place_after,claim_events,xid,created_ts}}'::text[] order by r::text)"
    " from (select * from gapless.{}) r"
)


NOTHING_LOCKED = {"wait_reply", "events_of"}


@pytest.mark.parametrize("name", CALLS)
def test_only_the_chunk_of_the_events_is_locked(twins: Twins, name: str) -> None:
    call = _prepared(twins, name)
    for _ in range(8):
        with twins.undone():
            twins.conn.execute(f"select from gapless.{call}".encode())
            assert twins.value("select current_setting('plan_cache_mode')") == "auto"
            assert twins.value(LOCKED) == (
                None if name in NOTHING_LOCKED else ["gapless.outbox_message_1"]
            )


def _prepared(twins: Twins, name: str) -> str:
    twins.conn.execute("select gapless.set_filter('billing', 'other', '{*}')")
    twins.conn.execute("update gapless.consumer_offsets set epoch = 5, token = %s", [TOKEN])
    lease = twins.leases["sender", "orders", 1]
    place = {**twins.topic_ids, "token": TOKEN, "lease": lease}
    return CALLS[name].format(**place, ids=IDS.format(**place))


@pytest.fixture(scope="module")
def beyond(elsewhere: Connection[Any]) -> Twins:
    """Twins whose events are in the default chunk."""
    elsewhere.execute(
        "select setval('gapless.outbox_message_id_seq', max(upto)) from gapless.chunk"
    )
    return Twins(elsewhere)


# A poll is a transaction of its own.
@pytest.mark.parametrize("name", [each for each in CALLS if each != "deliver_units"])
def test_the_default_chunk_is_let_go_of_when_somebody_waits_for_it(
    beyond: Twins, name: str
) -> None:
    """And the call returns what it returned before."""
    with beyond.undone():
        call = _prepared(beyond, name)
        with beyond.undone():
            expected = beyond.value(SAME.format(call))
            kept = None if name in NOTHING_LOCKED else ["gapless.outbox_message_default"]
            assert beyond.value(LOCKED) == kept
        beyond.conn.execute("create table gapless.default_wanted ()")
        for _ in range(8):
            with beyond.undone():
                assert beyond.value(SAME.format(call)) == expected
                assert beyond.value(LOCKED) is None
