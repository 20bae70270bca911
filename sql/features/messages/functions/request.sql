-- Publish a request: an event whose handler replies (reply.sql). Returns the request's id, which is its transaction_id
-- and the argument of wait_reply(). Commit, then wait: no handler sees an uncommitted event.
--   select gapless.request('prices', '{"of": "AA"}', timeout => '5 s', to_group => 'quotes');
-- timeout: after it no handler replies any more. The topic has to take direct messages (set_direct.sql), because the
-- reply is an event of it that every group passes. Raises GL409 when it does not, 22023 for headers that are no object,
-- and the errors of publish().
create or replace function gapless.request(
  topic text, payload json, timeout interval default '30 s', to_group text default null, key text default null,
  event_type text default null, headers jsonb default null, host_id text default null, user_id text default null,
  to_subscription text default null
) returns uuid
language plpgsql as $$
declare
  seconds double precision := extract(epoch from request.timeout);
  request_id uuid := gen_random_uuid();
begin
  if (seconds > 0 and seconds <= 86400) is not true then
    raise exception 'the timeout of a request is above 0 s, at most 1 day, not %',
      coalesce(request.timeout::text, 'null')
      using errcode = 'GL400';
  end if;
  if not (select t.direct from gapless.topic t where t.topic_id = gapless.topic_id(request.topic)) then
    raise exception 'topic "%" takes no direct messages, and a reply is one: gapless topics alter % --direct',
      request.topic, request.topic
      using errcode = 'GL409';
  end if;
  if jsonb_typeof(request.headers) <> 'object' then    -- its handler would find no request in them
    perform gapless.refuse_headers(request.headers);
  end if;
  perform gapless.publish(
    request.topic, request.payload, request.key, request.event_type,
    coalesce(request.headers, '{}') || jsonb_build_object(
      'gapless-request', request_id,
      'gapless-deadline', clock_timestamp() + make_interval(secs => seconds)
    ),
    request.host_id, request.user_id, request_id, to_group => request.to_group,
    to_subscription => request.to_subscription
  );
  return request_id;
end
$$;
