-- The offset, if the group can go there. GL400: before the oldest, or beyond the end.
create or replace function gapless.checked_offset(
  topic text, topic_id int, partition_id int, c_offset bigint
)
returns bigint
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  ends record;
begin
  select * into ends from gapless.log_ends(topic_id, partition_id);
  if c_offset > ends.end_offset then
    raise exception 'offset % is beyond the end of %/%: the next event gets offset %',
      c_offset, topic, partition_id, ends.end_offset
      using errcode = 'GL400';
  end if;
  if c_offset < ends.first_offset then
    raise exception 'offset % of %/% is not there (any more): the earliest is %',
      c_offset, topic, partition_id, ends.first_offset
      using errcode = 'GL400';
  end if;
  return c_offset;
end
$$;
