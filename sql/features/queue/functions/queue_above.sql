-- Return the state above the floors of these partitions of queue groups, in the order given: has_gap, events are open
-- between the ranges; has_due, a range lapsed, was given back, or was delivered by a clock that was ahead; is_finished,
-- sweep() has work to do. It reads all ranges there.
-- index: queue_range_pkey from the floor on
create or replace function gapless.queue_above(_lease_nos int[])
returns table (has_gap boolean, has_due boolean, is_finished boolean)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  now_ts timestamptz := clock_timestamp();
begin
  return query
  select
    coalesce(a.events < a.last_offset + 1 - f.next_offset, false), coalesce(a.due, false), coalesce(a.finished, false)
  from unnest(_lease_nos) with ordinality as w (lease_no, n)
  cross join lateral (
    select q.next_offset from gapless.queue_floor q
    where q.lease_no = w.lease_no
    order by q.version desc limit 1
  ) f
  cross join lateral (
    select sum(r.last_offset + 1 - r.first_offset) as events, max(r.last_offset) as last_offset,
      bool_or(r.deadline <= now_ts or r.deadline is not null and r.since_ts > now_ts + interval '1 s') as due,
      bool_or(r.deadline is null and r.first_offset = f.next_offset)
        or count(*) filter (where r.deadline is null) >= 256 as finished
    from gapless.queue_range r
    where r.lease_no = w.lease_no and r.first_offset >= f.next_offset
  ) a
  order by w.n;
end
$$;
