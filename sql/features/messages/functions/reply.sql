-- Reply to a request, in the transaction that handles it; headers are the request's. Returns false, and publishes
-- nothing, when the request's time is over. The reply is an event of the topic that no group handles.
--   select gapless.reply('prices', headers, '{"price": 12.5}');
-- Raises GL400 for an event that is no request.
create or replace function gapless.reply(topic text, headers jsonb, payload json) returns boolean
language plpgsql as $$
declare
  request_id uuid;
begin
  begin
    request_id := (reply.headers ->> 'gapless-request')::uuid;
    if (reply.headers ->> 'gapless-deadline')::timestamptz < clock_timestamp() then
      return false;
    end if;
  exception when data_exception then
    request_id := null;
  end;
  if request_id is null then
    raise exception 'this event is no request: no program waits for a reply' using errcode = 'GL400';
  end if;
  perform gapless.publish(
    reply.topic, reply.payload, request_id::text,
    headers => jsonb_build_object('gapless-to-group', '', 'gapless-reply-to', request_id),
    transaction_id => gapless.reply_uuid(request_id)
  );
  return true;
end
$$;
