-- Let retention wait until this transaction is over: it moves a group to a place in this topic, which MUST not be
-- dropped between the look and the commit.
create or replace function gapless.hold_start(_topic_ids int[]) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select from gapless.topic t where t.topic_id = any (_topic_ids)
  order by t.topic_id
  for share
$$;
