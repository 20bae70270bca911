-- Tell whether a group has subscriptions with SQL conditions.
create or replace function gapless.has_conditions(_group_id text, _topic_id int) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select exists (
    select from gapless.subscription_form f
    where f.group_id = _group_id and f.topic_id = _topic_id and f.condition_digest is not null
  )
$$;
