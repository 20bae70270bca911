-- Tell whether events are open between the ranges of a queue group's partitions, or between a floor and its first
-- range.
create or replace function gapless.has_gaps(_group_id text, _topic_id int) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
  select exists (
    select from gapless.lease l
    cross join lateral gapless.floor_of(l.lease_no) f
    cross join lateral (
      select r.first_offset,
        coalesce(lag(r.last_offset) over (order by r.first_offset) + 1, f.next_offset) as expected
      from gapless.queue_range r
      where r.lease_no = l.lease_no and r.first_offset >= f.next_offset
    ) w
    where l.group_id = _group_id and l.topic_id = _topic_id and w.first_offset <> w.expected
  )
$$;
