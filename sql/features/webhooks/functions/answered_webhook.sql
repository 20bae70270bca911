-- Resume an endpoint that shares a group, and was stopped because its requests failed: it answers again. For delivering
-- workers. False: it was removed, or a person has paused or resumed it in between.
create or replace function gapless.answered_webhook(_name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  own gapless.webhook;
begin
  select w.* into own from gapless.webhook w
  join gapless.webhook_state s using (name)
  where w.name = _name and w.removed_ts is null and w.shared and s.circuit_ts is not null
  for no key update of w;
  return found and gapless.continue_webhook(own);
end
$$;
