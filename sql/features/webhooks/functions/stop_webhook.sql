-- Pause an endpoint that answered 410 Gone until a person resumes it. For delivering workers, which may pause nothing
-- else.
-- tries: for one that shares a group, whose requests fail: it is tried now and then (probe_webhook()), and continues
-- with the first request that succeeds (answered_webhook()).
create or replace function gapless.stop_webhook(_name text, _reason text, _tries boolean default false) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  own gapless.webhook;
begin
  select w.* into own from gapless.webhook w where w.name = _name and w.removed_ts is null for no key update;
  if not found then
    return;
  end if;
  if not own.shared then
    perform gapless.pause(gapless.webhook_group(_name), reason => left(_reason, 500));
    return;
  end if;
  if _tries and gapless.is_stopped_webhook(own) then    -- by a person, or by another worker: also where it is not
    perform gapless.stop_shared_webhook(own, null);
    return;
  end if;
  perform gapless.stop_shared_webhook(own, _reason);
  update gapless.webhook_state s
  set circuit_ts = case when _tries then clock_timestamp() end,
    probe_ts = case when _tries then clock_timestamp() end
  where s.name = _name;
end
$$;
