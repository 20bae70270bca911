-- Change the number of partitions of a topic while producers and consumers run; returns its layout,
-- which counts the changes. The same number changes nothing.
--   select gapless.set_partitions('orders', 16);
--
-- Events that committed before keep their places: they get their offsets by the old number, here and now. Later events
-- are placed by the new one. Partitions that stay continue with their next offset (I3). The last offsets of the old
-- number become barriers: a group begins with new events of a partition when it has handled the old ones of every
-- partition that may share keys with it (blockers()).
--
-- Call it alone, in autocommit. It waits for a run of the sequencer, and for no worker.
-- locks, until its end: guard_sequencing, so that no run falls between old and new; the topic
--   (create_group waits for it); the consumer_group rows of the topic. MUST NOT touch an offsets row
--   that exists: a worker's open batch would stop the sequencer.
create or replace function gapless.set_partitions(topic text, partitions int) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  wanted int := gapless.topic_id(topic);
  here gapless.topic;
  lost record;
begin
  if set_partitions.partitions is null or set_partitions.partitions not between 1 and 4096 then
    raise exception 'topic "%": partitions must be from 1 to 4096, not %',
      topic, coalesce(set_partitions.partitions::text, 'null')
      using errcode = 'GL400';
  end if;
  if current_setting('transaction_isolation') <> 'read committed'
    or pg_current_xact_id_if_assigned() is not null
  then
    raise exception 'gapless.set_partitions() must run in a READ COMMITTED transaction of its own'
      using errcode = 'invalid_transaction_state';
  end if;
  lock table gapless.guard_sequencing in exclusive mode;
  perform gapless.sequence_events();
  select t.* into strict here from gapless.topic t where t.topic_id = wanted for no key update;
  if here.partitions = set_partitions.partitions then
    return here.layout;
  end if;
  -- The blockers of such a group cannot be determined.
  select a.* into lost from gapless.unplaced_groups a where a.topic_id = wanted order by 1, 3 limit 1;
  if found then
    raise exception 'group "%" %: %', lost.group_id, lost.problem, lost.remedy using errcode = 'GL409';
  end if;

  insert into gapless.layout (topic_id, layout, partitions, began_ts)
  values (wanted, here.layout, here.partitions, here.created_ts)
  on conflict do nothing;
  insert into gapless.layout (topic_id, layout, partitions)
  values (wanted, here.layout + 1, set_partitions.partitions);
  insert into gapless.barrier (topic_id, layout, partition_id, last_offset)
  select wanted, here.layout, p, s.last_offset
  from generate_series(0, here.partitions - 1) p
  cross join lateral (
    select n.last_offset, n.layout from gapless.log_segment n
    where n.topic_id = wanted and n.partition_id = p
    order by n.base_offset desc limit 1
  ) s
  where s.layout = here.layout;
  update gapless.topic t
  set partitions = set_partitions.partitions, layout = here.layout + 1,
    partitions_ever = greatest(here.partitions, here.partitions_ever)
  where t.topic_id = wanted;

  perform gapless.add_partitions(g.group_id, wanted, 'latest') from gapless.consumer_group g
  where g.topic_id = wanted;
  -- Every member sees that the plan is out of date (functions/watch.sql).
  update gapless.consumer_group g set planned_for = '{}' where g.topic_id = wanted;
  perform pg_notify('gapless_sequencer', '');
  return here.layout + 1;
end
$$;
