-- Let an endpoint rest: requests under way end, no other begins, and its place is kept. False: it rests already.
-- It is a pause() of its group. Raises GL404.
create or replace function gapless.pause_webhook(name text, reason text default null)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  own gapless.webhook := gapless.require_webhook(pause_webhook.name);
begin
  return gapless.pause(gapless.webhook_group(own.name), reason => pause_webhook.reason) > 0;
end
$$;
