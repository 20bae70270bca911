-- What gapless.seek() would do, changing nothing: a row for each partition in range.
--   next_offset  where the group is; new_offset where it would be
--   again        events that would be handled once more; skipped: never, or not by this group
--   letters      of those again, how many stand in the dead letter queue and would leave it
--   worker       a worker owns the partition now: seek() would refuse
-- Exactly one of the targets: to_end ('earliest' or 'latest'), to_offset, to_time (the first event
-- published then or later), to_transaction (its first event, in each partition that has one).
-- A unit is never cut: an offset inside of one means the unit's first (I5).
-- Raises GL404 for a group, topic, partition or transaction that is not there, GL400 for a target out
-- of range, and says what the range is.
create or replace function gapless.seek_plan(
  group_id text, topic text default null, partition_id int default null,
  to_end text default null, to_offset bigint default null, to_time timestamptz default null,
  to_transaction uuid default null
)
returns table (
  topic_name text, partition_no int, next_offset bigint, new_offset bigint,
  again bigint, skipped bigint, letters bigint, worker boolean
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
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
    -- Units that were handled as one (groupBy user) were set aside as one; if its beginning is gone,
    -- it stays what it is, and the group goes on behind it.
    select case
        when min(d.first_offset) < part.first_offset then max(d.last_offset) + 1
        else coalesce(min(d.first_offset), goal)
      end into goal
    from gapless.dead_letter d
    where d.group_id = part.group_id and d.topic_id = part.topic_id
      and d.partition_id = part.partition_id and d.first_offset < goal and d.last_offset >= goal;
    return query
    select part.name::text, part.partition_id, part.next_offset, goal,
      -- Of one that is beyond the end, what there is.
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

-- How many letters of a partition stand at this offset or later.
create or replace function gapless.letters_from(
  group_id text, topic_id int, partition_id int, first_offset bigint
)
returns bigint
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select count(*) from gapless.dead_letter_queue d
  where d.group_id = letters_from.group_id and d.topic_id = letters_from.topic_id
    and d.partition_id = letters_from.partition_id and d.c_offset >= letters_from.first_offset
$$;

-- Raise unless there is exactly one target, and it makes sense without looking at a partition.
create or replace function gapless.check_target(
  group_id text, to_end text, to_offset bigint, to_time timestamptz, to_transaction uuid
)
returns void
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  covered int[];
begin
  if num_nonnulls(to_end, to_offset, to_time, to_transaction) <> 1 then
    raise exception 'where to? Say one of earliest, latest, an offset, a time, a transaction'
      using errcode = 'GL400';
  end if;
  if to_end not in ('earliest', 'latest') then
    raise exception 'a group can go to earliest or latest, not to %', to_end using errcode = 'GL400';
  end if;
  if to_time > clock_timestamp() then
    raise exception '% is in the future: the database''s clock says %',
      gapless.stamp(to_time), gapless.stamp(clock_timestamp())
      using errcode = 'GL400';
  end if;
  if to_transaction is null then
    return;
  end if;
  select array_agg(g.topic_id) into covered
  from gapless.consumer_group g where g.group_id = check_target.group_id;
  if exists (select from gapless.locate(to_transaction, covered) l where l.partition_id is null) then
    raise exception 'transaction % has no offsets yet: the sequencer has not come to it', to_transaction
      using errcode = 'GL409';
  end if;
  if covered is not null and not exists (select from gapless.locate(to_transaction, covered)) then
    raise exception 'no event of transaction % is in a topic of group "%"', to_transaction, group_id
      using errcode = 'GL404';
  end if;
end
$$;

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

-- A time for people: UTC, to the millisecond.
create or replace function gapless.stamp(moment timestamptz)
returns text
language sql
stable
as $$
  select case
    when isfinite(moment) then to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    else moment::text
  end
$$;
