"""Webhooks of twins that share a group; some are stopped."""

import pytest

from support.twins import Twins

# One whose name is that of other subscriptions, too: of the other topic in a group of that name, and of that topic in
# another group. And one with a group of its own.
HOOKS = """
select gapless.add_webhook(t || '-' || n, t, 'https://a.b/c', '{env:S}', shared => true)
from unnest('{other,orders}'::text[]) t, unnest('{s1,s2}'::text[]) n;
select gapless.create_group('webhooks-orders', 'other');
select gapless.subscribe(g, 'other', 'orders-s1', condition => '1 == 1')
from unnest('{webhooks-orders,webhooks-other}'::text[]) g;
select gapless.create_group('g', 'orders');
select gapless.subscribe('g', 'orders', 'orders-s1', condition => '1 == 1');
select gapless.add_webhook('orders-own', 'orders', 'https://a.b/c', '{env:S}');
update gapless.outbox_message_t o set created_ts = '2020-01-01Z'::timestamptz + c.c_offset * interval '1 day'
from (
  select s.base_offset + u.n - 1 as c_offset, u.id
  from gapless.log_segment s, unnest(s.message_ids) with ordinality u (id, n)
) c
where c.id = o.id;
delete from gapless.audit;
with gone as (delete from gapless.group_filter returning *) insert into gapless.group_filter overriding system value select * from gone;
"""


STOP = (
    "insert into gapless.subscription_stop (subscription_id, partition_id, from_offset, reason)"
    " select subscription_id, %s, %s, 'no' from gapless.subscription"
    " where group_id = %s and topic_id = %s and name = %s"
)


GROUP = "webhooks-orders"


@pytest.fixture
def hooks(twins: Twins) -> Twins:
    """Of each topic two webhooks whose groups are at the end; an event's offset is its day in January."""
    twins.conn.execute(HOOKS)
    twins.seek(9, "next_offset > 8")
    twins.seek(10, f"{twins.here(GROUP, 0)}")
    return twins
