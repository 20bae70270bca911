-- Tell whether an endpoint whose circuit is open may be tried once: one caller in each `every` may. 'probe': the caller
-- makes one request. 'wait': not yet. 'closed': another worker had a success, or a person resumed it.
create or replace function gapless.probe_webhook(_name text, _every interval) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  own gapless.webhook_state;
begin
  select s.* into own from gapless.webhook_state s where s.name = _name;
  if own.circuit_ts is null then
    return 'closed';
  end if;
  update gapless.webhook_state s set probe_ts = clock_timestamp()
  where s.name = _name and s.circuit_ts is not null
    -- A time further ahead was set by a wrong clock.
    and (s.probe_ts > clock_timestamp() - _every and s.probe_ts <= clock_timestamp() + _every) is not true;
  return case when found then 'probe' else 'wait' end;
end
$$;
