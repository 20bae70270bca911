-- Return the first offset of the unit that contains an offset (I5); for a missing offset, that offset itself.
create or replace function gapless.unit_start(_topic_id int, _partition_id int, _c_offset bigint) returns bigint
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  place record;
  before text;      -- the unit ends before it, in its segment
begin
  for place in
    select s.base_offset, s.last_offset, s.unit_ends
    from gapless.log_segment s
    where s.topic_id = _topic_id and s.partition_id = _partition_id and s.base_offset <= _c_offset
    order by s.base_offset desc
  loop
    before := substring(
      place.unit_ends from 1 for (_c_offset - place.base_offset)::int
    )::text;
    if place.last_offset < _c_offset then
      -- Beyond the end, or the segment before: its last event ends a unit, or the unit began in it.
      if right(place.unit_ends::text, 1) = '1' then
        return least(_c_offset, place.last_offset + 1);
      end if;
      before := place.unit_ends::text;
    end if;
    if strpos(before, '1') > 0 then
      return place.base_offset + length(before) - strpos(reverse(before), '1') + 1;
    end if;
    _c_offset := place.base_offset;
  end loop;
  return _c_offset;
end
$$;
