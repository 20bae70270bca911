-- Return the present chunks, oldest first: whether each goes, and if not, why it stays. Changes nothing. Chunks go
-- oldest first, so one that stays keeps those after it. is_behind: it stays only because a consumer has not reached its
-- end. The default chunk is the last one, if it has events; it never goes.
--   select * from gapless.retention_plan();
create or replace function gapless.retention_plan() returns table (
  chunk text, upto bigint, events bigint, bytes bigint, newest_ts timestamptz, goes boolean,
  reasons text[], is_behind boolean
)
language sql stable security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'    -- to look at a chunk that is being dropped waits for it
as $$
  select c.chunk, c.upto, e.events, c.bytes, e.newest_ts,
    bool_and(k.reasons = '{}') over (order by c.upto), k.reasons, k.is_behind
  from gapless.chunk c
  cross join lateral (
    select sum(x.events)::bigint as events, max(x.newest_ts) as newest_ts
    from gapless.chunk_end x where x.upto = c.upto
  ) e
  cross join lateral (
    select coalesce(array_agg(r.reason order by r.reason), '{}') as reasons,
      coalesce(bool_and(r.is_behind), false) as is_behind
    from gapless.reasons_to_keep(c.upto) r
  ) k
  where c.upto > (select s.dropped_upto from gapless.retention_state s)
  union all
  select d.chunk, 9223372036854775807, null, d.bytes, null, false, array[d.reason], false
  from gapless.default_chunk d
  order by 2
$$;
