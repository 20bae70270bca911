-- Return the latest time for which events of a published transaction wait; null: none waits.
-- topic_ids: only events of these topics.
create or replace function gapless.scheduled_until(transaction_id uuid, topic_ids int[] default null)
returns timestamptz
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select max(x.deliver_at)
  from (
    select s.deliver_at, s.topic_id
    from gapless.scheduled s where s.transaction_id = scheduled_until.transaction_id
    union all
    select s.deliver_at, s.topic_id
    from gapless.scheduled s
    where s.transaction_id is null and s.xid = gapless.xid_of(scheduled_until.transaction_id)
      and s.timeline = gapless.timeline_of(scheduled_until.transaction_id)
  ) x
  where scheduled_until.topic_ids is null or x.topic_id = any (scheduled_until.topic_ids)
$$;
