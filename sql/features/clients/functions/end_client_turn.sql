-- Renew the deadline after a commit, and release a partition that is planned for another member as soon as no unit of
-- it is in hand.
create or replace function gapless.end_client_turn(
  _member_id uuid, _group_id text, _topic_id int, _expires_at timestamptz, _ttl interval, _partition_id int,
  _epoch bigint, _token uuid, _is_going boolean
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  if _is_going and not gapless.has_delivered(_group_id, _topic_id, _partition_id, _epoch) then
    perform gapless.release_client_lease(_group_id, _topic_id, _partition_id, _epoch, _token);
  end if;
  update gapless.member m set beat = m.beat + 1, expires_at = clock_timestamp() + _ttl
  where m.ctid = gapless.member_row(_member_id)
    and (clock_timestamp() + _ttl - _expires_at > _ttl / 20 or _expires_at > clock_timestamp() + _ttl);
end
$$;
