-- End the sessions that hold a partition's lock although the lease's owner is no longer a member. The pid is looked up
-- now, never taken from a column. Returns the number of ended sessions.
create or replace function gapless.break_zombie(_group_id text, _topic_id int, _partition_id int) returns int
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select count(*) filter (where pg_terminate_backend(k.pid))::int
  from gapless.lease l
  join pg_locks k on k.locktype = 'advisory' and k.classid = 7427003::oid
    and k.objid = l.lease_no::oid and k.objsubid = 2 and k.granted and k.pid <> pg_backend_pid()
    and k.database = (select d.oid from pg_database d where d.datname = current_database())
  where l.group_id = _group_id and l.topic_id = _topic_id and l.partition_id = _partition_id
    and not exists (select from gapless.member m where m.member_id = l.owner)
$$;
