-- A supervisor gives up a lease whose worker died; the fence still guards what the worker left.
create or replace function gapless.disown(
  member_id uuid, group_id text, topic_id int, partition_id int
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update gapless.lease l set owner = null, worker_pid = null
  where l.group_id = disown.group_id and l.topic_id = disown.topic_id
    and l.partition_id = disown.partition_id and l.owner = disown.member_id;
  if found then
    perform pg_notify('gapless_g_' || g.group_no, 'free')
    from gapless.consumer_group g
    where g.group_id = disown.group_id and g.topic_id = disown.topic_id;
  end if;
end
$$;
