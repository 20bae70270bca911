-- take() for a topic with direct messages: events for other groups are acknowledged here, and the next events are
-- taken.
-- locks: as reserve()
create or replace function gapless.take_direct(
  _group_id text, _topic_id int, _max_events int, _visibility interval, _crashes_max int
) returns table (
  receipt text, partition_id int, c_offset bigint, attempt int, key text, event_type text, payload json,
  headers jsonb, host_id text, user_id text, transaction_id uuid, created_ts timestamptz
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  each record;
  receipts text[];    -- of events for other groups, and the offsets
  offsets bigint[];
  kept int := 0;
begin
  loop
    receipts := '{}';
    offsets := '{}';
    for each in
      select r.* from gapless.reserve(
        _group_id, _topic_id, null, _max_events, _visibility, session_user::text, 'any', _crashes_max
      ) r
    loop
      if coalesce(each.headers ->> 'gapless-to-group', _group_id) <> _group_id then
        receipts := receipts || each.receipt;
        offsets := offsets || each.c_offset;
        continue;
      end if;
      kept := kept + 1;
      receipt := each.receipt; partition_id := each.partition_id; c_offset := each.c_offset;
      attempt := each.attempts + each.crashes; key := each.key; event_type := each.event_type;
      payload := each.payload; headers := each.headers; host_id := each.host_id; user_id := each.user_id;
      transaction_id := coalesce(each.transaction_id, gapless.transaction_uuid(each.xid, each.timeline));
      created_ts := each.created_ts;
      return next;
    end loop;
    perform gapless.acknowledge_receipt(u.receipt, u.c_offset)
    from unnest(receipts, offsets) as u (receipt, c_offset);
    exit when kept > 0 or receipts = '{}';
  end loop;
end
$$;
