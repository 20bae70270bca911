-- Put the new fence into the row that every batch locks and compares (I7): from here on a former owner cannot commit.
-- Waits for its open transaction (set lock_timeout, and try again).
-- Raises GL410 when the group's row is gone. Returns null when a higher epoch stands there; otherwise whether the
-- predecessor ended uncleanly, that is, without release: then the first units are to be handled one by one.
create or replace function gapless.install_fence(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid
) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  unclean boolean;
begin
  select c.installed_offset is not null into unclean
  from gapless.consumer_offsets c
  where c.group_id = _group_id and c.topic_id = _topic_id and c.partition_id = _partition_id
    and (c.epoch < _epoch or c.token = _token)
  for update;
  if not found then
    if not exists (
      select from gapless.consumer_offsets c
      where c.group_id = _group_id and c.topic_id = _topic_id and c.partition_id = _partition_id
    ) then
      raise exception 'the group has no row in consumer_offsets' using errcode = 'GL410';
    end if;
    return null;
  end if;
  update gapless.consumer_offsets c
  set epoch = _epoch, token = _token, installed_offset = c.next_offset
  where c.group_id = _group_id and c.topic_id = _topic_id and c.partition_id = _partition_id;
  return unclean;
end
$$;
