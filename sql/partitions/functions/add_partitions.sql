-- Give a group a row for every partition of a topic that has none: offsets also for partitions that only an earlier
-- layout had, leases for present partitions and for those with events that the group has not handled.
-- A partition that is new to the group begins at its start; after a change there is none. A partition with a lease is
-- not new: its row is gone (consume/views/unplaced_groups.sql), and no other place is as good as the lost one. Before:
-- the topic is locked, so no other session adds rows. MUST NOT insert over a row: that would wait for the batch that
-- has it locked.
create or replace function gapless.add_partitions(_group_id text, _topic_id int, _start text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  -- MUST be one statement: the rows of group_starts are of one moment.
  insert into gapless.consumer_offsets (group_id, topic_id, partition_id, next_offset, start_offset, latest_upto)
  select _group_id, t.topic_id, p, b.start_offset, b.start_offset, case when k.first_offset is not null then k.upto end
  from gapless.topic t
  cross join lateral generate_series(0, greatest(t.partitions, t.partitions_ever) - 1) p
  left join gapless.group_starts k on k.start = _start and k.topic_id = t.topic_id and k.partition_id = p
  cross join lateral (
    select case
      when _start = 'latest' then coalesce(
        (
          select s.last_offset from gapless.log_segment s
          where s.topic_id = t.topic_id and s.partition_id = p
          order by s.base_offset desc limit 1
        ), 0) + 1
      else coalesce(k.first_offset, k.upto, gapless.log_first(t.topic_id, p))
    end as start_offset
  ) b
  where t.topic_id = _topic_id and not exists (
    select from gapless.consumer_offsets c
    where c.group_id = _group_id and c.topic_id = t.topic_id and c.partition_id = p
  ) and not exists (
    select from gapless.lease l
    where l.group_id = _group_id and l.topic_id = t.topic_id and l.partition_id = p
  );

  -- An epoch below the one in the offsets row would keep every owner out.
  insert into gapless.lease (group_id, topic_id, partition_id, epoch)
  select c.group_id, c.topic_id, c.partition_id, c.epoch
  from gapless.consumer_offsets c
  join gapless.topic t using (topic_id)
  where c.group_id = _group_id and c.topic_id = _topic_id
    and (
      c.partition_id < t.partitions
      or not gapless.is_finished(c.group_id, c.topic_id, c.partition_id)
    )
    and not exists (
      select from gapless.lease l
      where l.group_id = c.group_id and l.topic_id = c.topic_id and l.partition_id = c.partition_id
    );

  perform gapless.enter_queue(_group_id, _topic_id, g.block) from gapless.consumer_group g
  where g.group_id = _group_id and g.topic_id = _topic_id and g.mode = 'queue';
end
$$;
