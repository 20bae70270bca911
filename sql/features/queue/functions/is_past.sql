-- Tell whether a group has handled, or set aside, all events from first_offset to last_offset of a partition. A queue
-- group may have finished them above its floor.
-- index: queue_range_pkey, those ranges alone, and never below the floor
create or replace function gapless.is_past(
  _group_id text, _topic_id int, _partition_id int, _first_offset bigint, _last_offset bigint, _next_offset bigint
) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  place int;
  begins bigint;
begin
  if _last_offset < _next_offset or _next_offset is null then
    return _last_offset < _next_offset;
  end if;
  select l.lease_no into place from gapless.lease l
  join gapless.consumer_group g using (group_id, topic_id)
  where l.group_id = _group_id and l.topic_id = _topic_id and l.partition_id = _partition_id and g.mode = 'queue';
  if not found then
    return false;
  end if;
  select max(r.first_offset) into begins from gapless.queue_range r
  where r.lease_no = place and r.first_offset between _next_offset and greatest(_first_offset, _next_offset);
  return coalesce(
    (
      select sum(
        least(r.last_offset, _last_offset) - greatest(r.first_offset, _first_offset, _next_offset) + 1
      )
      from gapless.queue_range r
      where r.lease_no = place and r.first_offset between begins and _last_offset
        and r.last_offset >= greatest(_first_offset, _next_offset) and r.deadline is null
    ), 0) = _last_offset - greatest(_first_offset, _next_offset) + 1;
end
$$;
