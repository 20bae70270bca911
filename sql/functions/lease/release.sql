-- Let go of a partition after its last batch; tells the group, so that the next owner starts at once.
create or replace function gapless.release(
  _group_id text, _topic_id int, _partition_id int, _token uuid
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update gapless.consumer_offsets c set installed_offset = null
  where c.group_id = _group_id and c.topic_id = _topic_id
    and c.partition_id = _partition_id and c.token = _token;
  update gapless.lease l set owner = null, token = null, worker_pid = null
  where l.group_id = _group_id and l.topic_id = _topic_id
    and l.partition_id = _partition_id and l.token = _token;
  if not found then
    return false;
  end if;
  perform pg_notify('gapless_g_' || g.group_no, 'free')
  from gapless.consumer_group g
  where g.group_id = _group_id and g.topic_id = _topic_id;
  return true;
end
$$;
