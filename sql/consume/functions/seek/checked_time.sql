-- Return the offset of a time, if all events since then are there. GL400: events of that time are gone.
create or replace function gapless.checked_time(_topic text, _topic_id int, _partition_id int, _since timestamptz)
returns bigint
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  oldest_offset bigint := gapless.log_first(_topic_id, _partition_id);
  oldest timestamptz;
begin
  if _since < (
    select l.newest_ts from gapless.log_start l
    where l.topic_id = _topic_id and l.partition_id = _partition_id
  ) then
    select r.created_ts into oldest
    from gapless.read(_topic, _partition_id, oldest_offset, oldest_offset) r;
    raise exception 'events of %/% from % are not there any more: the earliest is of %',
      _topic, _partition_id, gapless.stamp(_since),
      coalesce(gapless.stamp(oldest), 'later, for none is there')
      using errcode = 'GL400';
  end if;
  return gapless.offset_since(_topic_id, _partition_id, _since);
end
$$;
