-- Return the offset, if the group can go there. GL400: before the oldest, or beyond the end.
create or replace function gapless.checked_offset(_topic text, _topic_id int, _partition_id int, _c_offset bigint)
returns bigint
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  ends record;
begin
  select * into ends from gapless.log_ends(_topic_id, _partition_id);
  if _c_offset > ends.end_offset then
    raise exception 'offset % is beyond the end of %/%: the next event gets offset %',
      _c_offset, _topic, _partition_id, ends.end_offset
      using errcode = 'GL400';
  end if;
  if _c_offset < ends.first_offset then
    raise exception 'offset % of %/% is not there (any more): the earliest is %',
      _c_offset, _topic, _partition_id, ends.first_offset
      using errcode = 'GL400';
  end if;
  return _c_offset;
end
$$;
