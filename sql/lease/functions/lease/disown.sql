-- Give up a lease whose worker died, as its supervisor; the fence still guards the worker's open work.
create or replace function gapless.disown(_member_id uuid, _group_id text, _topic_id int, _partition_id int)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update gapless.lease l set owner = null, worker_pid = null
  where l.group_id = _group_id and l.topic_id = _topic_id
    and l.partition_id = _partition_id and l.owner = _member_id;
  if found then
    perform pg_notify('gapless_g_' || g.group_no, 'free')
    from gapless.consumer_group g
    where g.group_id = _group_id and g.topic_id = _topic_id;
  end if;
end
$$;
