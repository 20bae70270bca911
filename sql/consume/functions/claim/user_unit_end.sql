-- Return the last offset of the merged unit that contains upto; first_offset, where a unit begins, is not behind it.
-- The search doubles its range each time, and does not pass a hole.
create or replace function gapless.user_unit_end(
  _topic_id int, _partition_id int, _first_offset bigint, _upto bigint, _layout int
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  look_to bigint := _upto;
  further bigint;
  found_end record;
  segments int := 1;
begin
  loop
    select min(u.unit_end) filter (where u.is_closed) as closed, max(u.unit_end) as reached
    into found_end
    from gapless.user_units(_topic_id, _partition_id, _first_offset, look_to, _layout) u
    where u.unit_end >= _upto;
    if found_end.closed is not null then
      return found_end.closed;
    end if;
    select max(n.last_offset) filter (where n.base_offset <= n.expected) into further
    from (
      select s.base_offset, s.last_offset,
        coalesce(lag(s.last_offset) over (order by s.base_offset), look_to) + 1 as expected
      from gapless.log_segment s
      where s.topic_id = _topic_id and s.partition_id = _partition_id
        and s.base_offset > look_to - 200    -- a segment has no more
        and s.last_offset > look_to and s.layout <= _layout
      order by s.base_offset
      limit segments
    ) n;
    if further is null then
      return coalesce(found_end.reached, _upto);
    end if;
    look_to := further;
    segments := segments * 2;
  end loop;
end
$$;
