-- Return the subscriptions with these numbers that still exist, as they are now.
create or replace function gapless.subscriptions_of(_ids bigint[])
returns table (subscription_id bigint, name text, params text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select s.subscription_id, s.name, s.params::text
  from gapless.subscription s
  where s.subscription_id = any ((select _ids)::bigint[])
$$;
