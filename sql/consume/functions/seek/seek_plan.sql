-- Show the effect of gapless.seek(), and change nothing: a row for each partition in range.
--   next_offset  the group's offset; new_offset its offset after the seek
--   again        events that would be handled once more; skipped: events that this group would never handle
--   letters      units among those to be handled again that are in the dead letter queue and would leave it
--   worker       true when a worker owns the partition now: seek() would refuse
-- Give exactly one target: to_end ('earliest' or 'latest'), to_offset, to_time (the first event that was published then
-- or later), to_transaction (its first event, in each partition that has one).
-- A unit is never cut: an offset inside a unit means the unit's first offset (I5).
-- Raises GL404 for an unknown group, topic, partition or transaction, and GL400, with the range, for a target that is
-- out of range.
create or replace function gapless.seek_plan(
  group_id text, topic text default null, partition_id int default null,
  to_end text default null, to_offset bigint default null, to_time timestamptz default null,
  to_transaction uuid default null
) returns table (
  topic_name text, partition_no int, next_offset bigint, new_offset bigint,
  again bigint, skipped bigint, letters bigint, worker boolean
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  part record;
  goal bigint;
begin
  perform gapless.check_target(group_id, to_end, to_offset, to_time, to_transaction);
  for part in
    select c.*, t.name, e.first_offset, e.end_offset
    from gapless.group_partitions(seek_plan.group_id, seek_plan.topic, seek_plan.partition_id) c
    join gapless.topic t using (topic_id)
    cross join lateral gapless.log_ends(c.topic_id, c.partition_id) e
    order by t.name, c.partition_id
  loop
    goal := case
      when seek_plan.to_end = 'earliest' then part.first_offset
      when seek_plan.to_end = 'latest' then part.end_offset
      when seek_plan.to_offset is not null then gapless.checked_offset(
        part.name, part.topic_id, part.partition_id, seek_plan.to_offset
      )
      when seek_plan.to_time is not null then gapless.checked_time(
        part.name, part.topic_id, part.partition_id, seek_plan.to_time
      )
      else coalesce(
        (
          select min(l.first_offset)
          from gapless.locate(seek_plan.to_transaction, array[part.topic_id]) l
          where l.partition_id = part.partition_id
        ), part.next_offset)
    end;
    goal := gapless.unit_start(part.topic_id, part.partition_id, goal);
    if goal < part.first_offset and part.next_offset <> goal then
      raise exception 'transaction % is not in %/% any more: the earliest offset is %',
        seek_plan.to_transaction, part.name, part.partition_id, part.first_offset
        using errcode = 'GL400';
    end if;
    -- Units that were handled as one (groupBy user) were set aside as one; if the beginning is gone, the unit stays as
    -- it is, and the group continues behind it.
    select case
        when min(d.first_offset) < part.first_offset then max(d.last_offset) + 1
        else coalesce(min(d.first_offset), goal)
      end into goal
    from gapless.dead_letter d
    where d.group_id = part.group_id and d.topic_id = part.topic_id
      and d.partition_id = part.partition_id and d.first_offset < goal and d.last_offset >= goal;
    return query
    select part.name::text, part.partition_id, part.next_offset, goal,
      -- For a target beyond the end: the offset that there is.
      greatest(least(part.next_offset, part.end_offset) - goal, 0),
      greatest(goal - part.next_offset, 0),
      gapless.letters_from(part.group_id, part.topic_id, part.partition_id, goal),
      exists (
        select from gapless.lease l
        join pg_locks k on k.locktype = 'advisory' and k.classid = 7427003::oid
          and k.objid = l.lease_no::oid and k.objsubid = 2 and k.granted
          and k.database = (select d.oid from pg_database d where d.datname = current_database())
        where l.group_id = part.group_id and l.topic_id = part.topic_id
          and l.partition_id = part.partition_id and k.pid <> pg_backend_pid()
      );
  end loop;
end
$$;
