-- Tell whether a group is one with subscriptions.
create or replace function gapless.has_subscriptions(_group_id text, _topic_id int) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select exists (
    select from gapless.group_filter f where f.group_id = _group_id and f.topic_id = _topic_id and f.subscribed
  )
$$;
