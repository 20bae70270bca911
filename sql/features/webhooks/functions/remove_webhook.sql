-- Stop calling an endpoint, and forget its place in the log and its units set aside. False: there is none. Delivering
-- workers release it within a heartbeat; then purge_webhooks(), which they also call, drops its group.
create or replace function gapless.remove_webhook(name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  own gapless.webhook;
begin
  update gapless.webhook w set removed_ts = clock_timestamp()
  where w.name = remove_webhook.name and w.removed_ts is null
  returning w.* into own;
  if not found then
    return false;
  end if;
  if own.shared then
    perform gapless.unsubscribe(gapless.group_of_webhook(own), t.name, own.name)
    from gapless.topic t where t.topic_id = own.topic_id;
  end if;
  perform gapless.note_change_of_webhook('remove-webhook', own);
  return true;
end
$$;
