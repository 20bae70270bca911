-- Return events that are kept beside the log and no longer in it, by their ids, as the query `fetch` returns them.
-- Raises 40001 when retention dropped one that is not kept any more: a newer event of its key has replaced it since it
-- was found, or a reader was overrun. The caller begins anew, and finds the present state.
create or replace function gapless.events_beside_of(_message_ids bigint[]) returns table (
  id bigint, key text, event_type text, payload json, headers jsonb, host_id text, user_id text,
  transaction_id uuid, xid xid8, created_ts timestamptz, cause text, correlation uuid
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
begin
  return query
  select b.id, b.key, b.event_type, b.payload, b.headers, b.host_id, b.user_id, b.transaction_id, b.xid, b.created_ts,
    b.cause, b.correlation
  from gapless.events_beside b where b.id = any (_message_ids);
  perform gapless.refuse_dropped(_message_ids);
end
$$;
