-- Tell whether a transaction that is older than a second has locked the log. The age of other roles' transactions is
-- visible only with pg_read_all_stats.
create or replace function gapless.is_in_long_use() returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select exists (
    select from pg_locks k
    left join pg_stat_activity a using (pid)
    where k.relation = 'gapless.outbox_message_t'::regclass
      and k.database = (select d.oid from pg_database d where d.datname = current_database())
      -- A prepared one has no session.
      and (a.pid is null or a.xact_start < clock_timestamp() - interval '1 s')
  )
$$;
