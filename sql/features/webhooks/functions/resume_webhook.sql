-- Let a paused endpoint continue where it was; for a failed one, try again at once. False: it was not paused.
-- Raises GL404.
create or replace function gapless.resume_webhook(name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  own gapless.webhook := gapless.require_webhook(resume_webhook.name);
begin
  if own.shared then
    return gapless.continue_webhook(own);
  end if;
  update gapless.webhook_state s set circuit_ts = null, probe_ts = null
  where s.name = own.name and s.circuit_ts is not null;
  return gapless.resume(gapless.webhook_group(own.name)) > 0;
end
$$;
