-- Release a partition that a client holds; its units in hand are delivered again, to the next owner, and do not count
-- as deaths. Returns false when the client was not the owner.
-- locks: the consumer_offsets row, then the lease
create or replace function gapless.release_client_lease(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid
) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
begin
  update gapless.delivery d set crashes = greatest(d.crashes - 1, 0), epoch = null
  where d.group_id = _group_id and d.topic_id = _topic_id and d.partition_id = _partition_id
    and d.epoch = _epoch and not d.finished;
  update gapless.dead_letter w set crashes = greatest(w.crashes - 1, 0), epoch = null
  where w.group_id = _group_id and w.topic_id = _topic_id and w.partition_id = _partition_id
    and w.state = 'waiting' and w.epoch = _epoch;
  return gapless.release(_group_id, _topic_id, _partition_id, _token)
    and pg_notify('gapless_p_' || _topic_id || '_' || _partition_id, 'free') is not null;
end
$$;
