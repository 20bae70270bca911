-- Return the lease of a partition that a client holds, with its fence locked (I7). Raises GL007 when it is not, or no
-- longer, the client's own.
-- locks: the consumer_offsets row until the transaction ends
create or replace function gapless.client_lease(
  _member_id uuid, _group_id text, _topic_id int, _partition_id int, out epoch bigint, out token uuid,
  out next_offset bigint, out is_going boolean
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  place tid;
begin
  select l.epoch, l.token, l.target is distinct from _member_id into epoch, token, is_going
  from gapless.lease l
  where l.group_id = _group_id and l.topic_id = _topic_id and l.partition_id = _partition_id and l.owner = _member_id;
  place := gapless.lock_offset(_group_id, _topic_id, _partition_id, epoch, token);
  select c.next_offset into next_offset from gapless.consumer_offsets c where c.ctid = place;
  -- After a wait, the lease is as it was before the wait.
  if place is null or not exists (
    select from gapless.lease l
    where l.group_id = _group_id and l.topic_id = _topic_id and l.partition_id = _partition_id
      and l.owner = _member_id and l.token = client_lease.token
  ) then
    raise exception 'partition % of group "%" is not (any more) this member''s: nothing was changed; poll again',
      _partition_id, _group_id
      using errcode = 'GL007';
  end if;
end
$$;
