-- Publish the events of one request, one or more, once, in the caller's transaction: a request that comes again with
-- its key stores nothing. The first event has the key as its dedupe_key.
--   select * from gapless.publish_request('orders', 'key-17', sha256('…'), array['{"total": 5}']);
-- digest: of the body; GL422 when the key came with another. The arrays are as in publish_each().
-- duplicate: the request came before; transaction_id is then that of the first time, and scheduled_ids is null. A call
-- that comes while the first is still being published waits for it, at most 5 s: then 55P03.
create or replace function gapless.publish_request(
  topic text, request_key text, digest bytea, payloads text[], keys text[] default null,
  event_types text[] default null, headers text[] default null, host_ids text[] default null,
  user_ids text[] default null, deliver_ats text[] default null, deliver_ins text[] default null,
  to_groups text[] default null, to_subscriptions text[] default null
) returns table (transaction_id uuid, duplicate boolean, scheduled_ids bigint[])
language plpgsql
set lock_timeout = '5s' as $$
#variable_conflict use_column
declare
  first record;
begin
  select o.* into strict first
  from gapless.publish_once(
    publish_request.topic, payloads[1]::json, request_key, keys[1], event_types[1],
    case
      when to_groups[1] is null and to_subscriptions[1] is null then headers[1]::jsonb
      else gapless.direct_headers(publish_request.topic, headers[1]::jsonb, to_groups[1], to_subscriptions[1])
    end,
    host_ids[1], user_ids[1], deliver_at => deliver_ats[1]::timestamptz,
    deliver_in => deliver_ins[1]::interval, digest => publish_request.digest
  ) o;
  transaction_id := first.transaction_id;
  duplicate := first.duplicate;
  if not duplicate then
    scheduled_ids := array_remove(
      first.scheduled_id || array(
        select e.scheduled_id
        from gapless.publish_each(
          publish_request.topic, payloads[2:], keys[2:], event_types[2:], headers[2:], host_ids[2:],
          user_ids[2:], deliver_ats => deliver_ats[2:], deliver_ins => deliver_ins[2:],
          to_groups => to_groups[2:], to_subscriptions => to_subscriptions[2:]
        ) e
      ),
      null
    );
  end if;
  return next;
end
$$;
