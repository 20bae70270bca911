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
  set delivered = s.delivered + u.delivered,
    failed = s.failed + u.failed,
    last_error = case when u.delivered + u.failed > 0 then left(u.error, 500) else s.last_error end,
    last_ts = case when u.delivered + u.failed > 0 then clock_timestamp() else s.last_ts end
  from said u join locked l using (name)
  where s.name = u.name
$$;
