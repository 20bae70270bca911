-- groupBy user: the units of a range, neighbouring ones of the same (host_id, user_id) merged.
--
-- A unit belongs to a user when all its events do; a unit without a user_id, or with events of several users, belongs
-- to no user and is merged with none. Nothing is ever cut (I5).

-- Return the last offset of each merged unit between first_offset, where a unit begins, and last_offset. is_closed: the
-- next unit is of another user; for the last one that is unknown, and false. A merged unit ends before a hole, and with
-- the layout: later events belong to another claim.
create or replace function gapless.user_units(
  _topic_id int, _partition_id int, _first_offset bigint, _last_offset bigint, _layout int
) returns table (unit_end bigint, is_closed boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_custom_plan
set jit = off as $$
#variable_conflict use_column
declare
  base bigint := coalesce((
    select b.base_offset from gapless.log_segment b
    where b.topic_id = _topic_id and b.partition_id = _partition_id and b.base_offset <= _first_offset
    order by b.base_offset desc limit 1
  ), 0);
  low bigint;      -- of ids, as in claim_events()
  high bigint;
begin
  select min(i), max(i) into low, high
  from gapless.log_segment s
  cross join lateral unnest(s.message_ids) i
  where s.topic_id = _topic_id and s.partition_id = _partition_id and s.base_offset between base and _last_offset;
  return query
  with
  segment as (
    select s.base_offset, s.message_ids, s.unit_ends,
      s.base_offset - 1 - lag(s.last_offset) over (order by s.base_offset) as missing
    from gapless.log_segment s
    where s.topic_id = _topic_id and s.partition_id = _partition_id
      and s.base_offset between base and _last_offset
      and s.layout <= _layout
  ),
  whole as (
    select g.*, sum(g.missing) over (order by g.base_offset) as missing_so_far from segment g
  ),
  event as (
    select g.base_offset + u.n - 1 as c_offset,
      get_bit(g.unit_ends, u.n::int - 1) = 1 as ends_unit,
      case when o.user_id is not null then
        coalesce(length(o.host_id)::text || ':' || o.host_id, '-') || '/' || o.user_id
      end as owner
    from whole g
    cross join unnest(g.message_ids) with ordinality as u (id, n)
    -- OFFSET 0: one look-up an id; a join may read all rows between two of them.
    left join lateral (
      select m.host_id, m.user_id from gapless.outbox_message_t m
      where m.id = u.id and m.id between low and high offset 0
    ) o on true
    where coalesce(g.missing_so_far, 0) = 0
      and g.base_offset + u.n - 1 between _first_offset and _last_offset
  ),
  numbered as (
    select e.*,
      count(*) filter (where e.ends_unit) over (order by e.c_offset) - e.ends_unit::int as unit_no
    from event e
  ),
  unit as (
    select max(n.c_offset) as unit_end,
      bool_or(n.ends_unit) as is_whole,
      case when count(n.owner) = count(*) and min(n.owner collate "C") = max(n.owner collate "C")
        then min(n.owner)
      end as owner
    from numbered n
    group by n.unit_no
  ),
  told as (
    select u.unit_end, u.is_whole,
      lead(u.unit_end) over w is null as is_last,
      u.owner is null
        or lead(u.unit_end) over w is not null and u.owner is distinct from lead(u.owner) over w
        as is_closed
    from unit u
    window w as (order by u.unit_end)
  )
  select t.unit_end, t.is_closed
  from told t
  where t.is_whole and (t.is_closed or t.is_last)
  order by t.unit_end;
  if gapless.is_in_default(array[low, high]) then
    raise exception using errcode = 'GL000';    -- its locks go, its rows stay
  end if;
exception
  when sqlstate 'GL000' then
    null;
end
$$;
