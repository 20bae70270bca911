-- Return events of latest that are no longer in the log, by their ids, as the query `fetch` returns them. Raises 40001
-- when retention dropped one and latest no longer has it: a newer event of its key has replaced it since it was found
-- there, or a reader was overrun. The caller begins anew, and finds the present state.
create or replace function gapless.latest_events(_message_ids bigint[]) returns table (
  id bigint, key text, event_type text, payload json, headers jsonb, host_id text, user_id text,
  transaction_id uuid, xid xid8, created_ts timestamptz, cause text, correlation uuid
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
begin
  return query
  select l.id, l.key, l.event_type, l.payload, l.headers, l.host_id, l.user_id, l.transaction_id, l.xid, l.created_ts,
    l.cause, l.correlation
  from gapless.latest l where l.id = any (_message_ids);
  perform gapless.refuse_replaced(_message_ids);
end
$$;
