-- Change the number of partitions of a topic while producers and consumers run; returns its layout,
-- which counts the changes. The same number changes nothing.
--   select gapless.set_partitions('orders', 16);
--
-- What committed before keeps its place: it is given its offsets by the old number, here and now. What
-- commits later is placed by the new one. Partitions that stay go on with their next offset (I3). The
-- last offsets of the old number become barriers: a group begins with new events of a partition when
-- it is done with the old ones of every partition that may share keys with it (functions/barrier.sql).
--
-- Call it alone, in autocommit. It waits for a run of the sequencer, and for no worker.
-- locks, until its end: guard_sequencing, so that no run falls between old and new; the topic
--   (create_group waits for it); the consumer_group rows of the topic. MUST NOT touch an offsets row
--   that exists: a worker's open batch would stop the sequencer.
create or replace function gapless.set_partitions(topic text, partitions int)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
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
  -- Nobody could say what such a group has to finish before it goes on.
  select a.* into lost from gapless.astray a where a.topic_id = wanted order by 1, 3 limit 1;
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

-- Give a group a row for every partition of a topic that has none: offsets also for partitions that
-- only an earlier layout had, leases for those that are, or have events the group has not handled.
-- A partition that is new to the group begins at its start; after a change there is none. One that has
-- a lease is not new: its row is gone (views/astray.sql), and no place is as good as the one it had.
-- Before: the topic is locked, so nobody else adds rows. MUST NOT insert over a row: that would wait
-- for the batch that has it locked.
create or replace function gapless.add_partitions(group_id text, topic_id int, start text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into gapless.consumer_offsets (group_id, topic_id, partition_id, next_offset)
  select add_partitions.group_id, t.topic_id, p,
    case add_partitions.start
      when 'latest' then coalesce(
        (
          select s.last_offset from gapless.log_segment s
          where s.topic_id = t.topic_id and s.partition_id = p
          order by s.base_offset desc limit 1
        ), 0) + 1
      else gapless.log_first(t.topic_id, p)
    end
  from gapless.topic t
  cross join lateral generate_series(0, greatest(t.partitions, t.partitions_ever) - 1) p
  where t.topic_id = add_partitions.topic_id and not exists (
    select from gapless.consumer_offsets c
    where c.group_id = add_partitions.group_id and c.topic_id = t.topic_id and c.partition_id = p
  ) and not exists (
    select from gapless.lease l
    where l.group_id = add_partitions.group_id and l.topic_id = t.topic_id and l.partition_id = p
  );

  -- An epoch below the one in the offsets row would keep every owner out.
  insert into gapless.lease (group_id, topic_id, partition_id, epoch)
  select c.group_id, c.topic_id, c.partition_id, c.epoch
  from gapless.consumer_offsets c
  join gapless.topic t using (topic_id)
  where c.group_id = add_partitions.group_id and c.topic_id = add_partitions.topic_id
    and (
      c.partition_id < t.partitions
      or not gapless.is_finished(c.group_id, c.topic_id, c.partition_id)
    )
    and not exists (
      select from gapless.lease l
      where l.group_id = c.group_id and l.topic_id = c.topic_id and l.partition_id = c.partition_id
    );
end
$$;
