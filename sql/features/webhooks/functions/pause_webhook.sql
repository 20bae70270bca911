-- Pause an endpoint: requests under way end, no other begins, and its place is kept. False: it is paused already. It is
-- a pause() of its group; for a webhook that shares a group, a stop of its subscription. Raises GL404.
create or replace function gapless.pause_webhook(name text, reason text default null) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  own gapless.webhook := gapless.require_webhook(pause_webhook.name);
begin
  if own.shared then
    update gapless.webhook_state s set circuit_ts = null, probe_ts = null where s.name = own.name;
    return gapless.stop_shared_webhook(own, concat_ws(': ', 'paused', pause_webhook.reason));
  end if;
  return gapless.pause(gapless.webhook_group(own.name), reason => pause_webhook.reason) > 0;
end
$$;
