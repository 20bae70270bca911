-- Forget all units of a partition from an offset on, whatever their state: the group is moved back to that offset and
-- will meet them in the log again. Called in the transaction that moves the group; returns the number of forgotten
-- units.
create or replace function gapless.forget_letters(group_id text, topic_id int, partition_id int, from_offset bigint)
returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  forgotten int;
begin
  perform gapless.lock_keys(
    forget_letters.group_id, forget_letters.topic_id, forget_letters.partition_id
  );
  delete from gapless.delivery y
  where y.group_id = forget_letters.group_id and y.topic_id = forget_letters.topic_id
    and y.partition_id = forget_letters.partition_id
    and y.first_offset >= forget_letters.from_offset;
  delete from gapless.dead_letter_key k
  where k.group_id = forget_letters.group_id and k.topic_id = forget_letters.topic_id
    and k.partition_id = forget_letters.partition_id
    and k.first_offset >= forget_letters.from_offset;
  delete from gapless.dead_letter_event e
  where e.group_id = forget_letters.group_id and e.topic_id = forget_letters.topic_id
    and e.partition_id = forget_letters.partition_id
    and e.first_offset >= forget_letters.from_offset;
  delete from gapless.dead_letter d
  where d.group_id = forget_letters.group_id and d.topic_id = forget_letters.topic_id
    and d.partition_id = forget_letters.partition_id
    and d.first_offset >= forget_letters.from_offset;
  get diagnostics forgotten = row_count;
  return forgotten;
end
$$;
