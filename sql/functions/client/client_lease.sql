-- The lease of a partition that a client holds, its fence locked (I7). Raises GL007 when it is not, or no more, its
-- own.
-- locks: the consumer_offsets row until the transaction ends
create or replace function gapless.client_lease(
  _member_id uuid, _group_id text, _topic_id int, _partition_id int, out epoch bigint, out token uuid,
  out next_offset bigint, out is_going boolean
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
  select l.epoch, l.token, c.next_offset, l.target is distinct from _member_id
  into epoch, token, next_offset, is_going
  from gapless.consumer_offsets c
  join gapless.lease l using (group_id, topic_id, partition_id)
  where c.group_id = _group_id and c.topic_id = _topic_id and c.partition_id = _partition_id
    and l.owner = _member_id and c.epoch = l.epoch and c.token = l.token
  for update of c;
  -- Waited for somebody? Then the lease is as it was before.
  if epoch is null or not exists (
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
