-- An endpoint said 410 Gone: let it rest until a person resumes it. For whoever delivers, who may pause nothing else.
create or replace function gapless.stop_webhook(_name text, _reason text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if exists (
    select from gapless.webhook w where w.name = _name and w.removed_ts is null
  ) then
    perform gapless.pause(gapless.webhook_group(_name), reason => left(_reason, 500));
  end if;
end
$$;
