-- As note_webhook(), for several that share a group: none has a circuit of one worker alone (stop_webhook.sql).
create or replace function gapless.note_webhooks(_names text[], _delivered bigint[], _failed bigint[], _errors text[])
returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  with said as (
    select u.* from unnest(_names, _delivered, _failed, _errors) u (name, delivered, failed, error)
  ),
  locked as (    -- by name: two workers note at the same time
    select s.name from gapless.webhook_state s where s.name = any (_names) order by s.name for no key update
  )
  update gapless.webhook_state s
  set delivered = s.delivered + u.delivered, failed = s.failed + u.failed, last_error = left(u.error, 500),
    last_ts = clock_timestamp()
  from said u join locked l using (name)
  where s.name = u.name
$$;
