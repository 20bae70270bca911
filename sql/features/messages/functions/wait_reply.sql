-- Wait for the reply to a request; no row: no reply came in that time. It looks every 2 to 50 ms.
--   select payload from gapless.wait_reply('prices', request_id, '5 s');
-- Any caller that knows the id of a request may read its reply. Call it after the requesting transaction has committed,
-- under READ COMMITTED, and for a short time: vacuum is held back while it waits.
-- index: outbox_message_transaction
create or replace function gapless.wait_reply(topic text, request_id uuid, timeout interval default '10 s')
returns table (payload json, headers jsonb, created_ts timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  seconds double precision := gapless.require_interval('timeout', timeout, true);
  wanted int := gapless.topic_id(topic);
  give_up timestamptz := clock_timestamp() + make_interval(secs => seconds);
  reply_id uuid := gapless.reply_uuid(wait_reply.request_id);
  pause_s double precision := 0.002;
  reply record;
begin
  perform gapless.require_read_committed('wait_reply');
  loop
    -- Undone, so that no chunk stays locked during the wait: no chunk could be created (create_chunks.sql).
    begin
      select o.payload, o.headers, o.created_ts into reply from gapless.outbox_message_t o
      where o.transaction_id = reply_id and o.topic_id = wanted
      order by o.id limit 1;
      raise exception using errcode = 'GL000';
    exception
      when sqlstate 'GL000' then
        null;
    end;
    if reply.created_ts is not null then
      return query select reply.payload, reply.headers, reply.created_ts;
      return;
    elsif clock_timestamp() not between give_up - make_interval(secs => seconds) and give_up then
      return;
    end if;
    perform pg_sleep(least(pause_s, extract(epoch from give_up - clock_timestamp())));
    pause_s := least(pause_s * 1.5, 0.05);
  end loop;
end
$$;
