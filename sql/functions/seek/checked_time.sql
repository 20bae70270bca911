-- The offset of a time, if all that was published since is there. GL400: events of then are gone.
create or replace function gapless.checked_time(
  topic text, topic_id int, partition_id int, since timestamptz
)
returns bigint
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  oldest_offset bigint := gapless.log_first(topic_id, partition_id);
  oldest timestamptz;
begin
  if since < (
    select l.newest_ts from gapless.log_start l
    where l.topic_id = checked_time.topic_id and l.partition_id = checked_time.partition_id
  ) then
    select r.created_ts into oldest
    from gapless.read(checked_time.topic, checked_time.partition_id, oldest_offset, oldest_offset) r;
    raise exception 'events of %/% from % are not there any more: the earliest is of %',
      topic, partition_id, gapless.stamp(since),
      coalesce(gapless.stamp(oldest), 'later, for none is there')
      using errcode = 'GL400';
  end if;
  return gapless.offset_since(topic_id, partition_id, since);
end
$$;
