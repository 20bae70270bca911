-- Return a webhook by its name, locked; a removed one counts as unknown. Raises GL404.
create or replace function gapless.require_webhook(_name text) returns gapless.webhook
language plpgsql as $$
declare
  own gapless.webhook;
begin
  select w.* into own from gapless.webhook w where w.name = _name and w.removed_ts is null for update;
  if not found then
    raise exception 'there is no webhook "%": gapless webhooks lists them', _name
      using errcode = 'GL404';
  end if;
  return own;
end
$$;
