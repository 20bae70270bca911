-- Keep the newest event of each key of a topic (compact), or stop doing so. Returns whether that is a change. Events of
-- the log are taken in from its beginning, in steps (compact()). After compaction is switched off, the kept rows go in
-- steps.
-- Raises GL404 for an unknown topic, GL409 as long as rows of an earlier compaction are there, or groups read them.
-- locks: the topic's row: no group begins, and no chunk is dropped, at this moment
create or replace function gapless.set_compaction(topic text, compact boolean) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  here gapless.topic;
  reader text;
begin
  select t.* into strict here from gapless.topic t
  where t.topic_id = gapless.topic_id(set_compaction.topic)
  for no key update;
  if here.compacted = set_compaction.compact then
    return false;
  end if;
  if set_compaction.compact then
    if exists (select from gapless.compaction c where c.topic_id = here.topic_id) then
      raise exception 'topic "%": rows kept before are still being removed: %',
        here.name, 'gapless run does that, or select gapless.compact()'
        using errcode = 'GL409';
    end if;
    insert into gapless.compaction (topic_id, partition_id, next_offset)
    select here.topic_id, p, gapless.log_first(here.topic_id, p)
    from generate_series(0, greatest(here.partitions, here.partitions_ever) - 1) p;
  else
    select c.group_id into reader from gapless.consumer_offsets c
    where c.topic_id = here.topic_id and c.next_offset < c.latest_upto
    order by 1 limit 1;
    if found then
      raise exception 'topic "%": group "%" still reads the latest events: %',
        here.name, reader, 'let it come to the log first, seek it, or drop it'
        using errcode = 'GL409';
    end if;
  end if;
  update gapless.topic t set compacted = set_compaction.compact where t.topic_id = here.topic_id;
  insert into gapless.audit (action, group_id, topic_id)
  values (case when set_compaction.compact then 'compact' else 'no-compact' end, '', here.topic_id);
  return true;
end
$$;
