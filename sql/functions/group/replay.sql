-- Replay: a scratch group handles a range of a topic once. It has no members and no plan: whoever runs
-- it takes partitions one by one, by their advisory lock and their fence. It neither lags nor holds
-- retention, and no other group's offset moves.

-- Make a scratch group over a range: from (one of them, inclusive; all null: the oldest event) to (one
-- of them, exclusive; both null: the end as it is now). Returns how many events are in it.
-- Raises as seek_plan(), and GL409 when there is such a group.
create or replace function gapless.create_replay(
  group_id text, topic text, partition_id int default null,
  from_end text default null, from_offset bigint default null, from_time timestamptz default null,
  to_offset bigint default null, to_time timestamptz default null
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  wanted int := gapless.topic_id(topic);
  events bigint;
begin
  if exists (select from gapless.consumer_group g where g.group_id = create_replay.group_id) then
    raise exception 'there is a group "%" already: choose another name, or go on with it (--continue)',
      create_replay.group_id
      using errcode = 'GL409';
  end if;
  perform gapless.create_group(create_replay.group_id, create_replay.topic);
  update gapless.consumer_group g set is_scratch = true where g.group_id = create_replay.group_id;
  perform set_config('gapless.seeking', pg_current_xact_id()::text, true);
  update gapless.consumer_offsets c
  set next_offset = p.new_offset, start_offset = p.new_offset,
    stop_offset = greatest(p.new_offset, case
      when create_replay.partition_id <> c.partition_id then p.new_offset
      when create_replay.to_time is not null
        then gapless.offset_since(wanted, c.partition_id, create_replay.to_time)
      else least(e.end_offset, coalesce(create_replay.to_offset, e.end_offset))
    end)
  from gapless.seek_plan(
    create_replay.group_id, create_replay.topic,
    to_end => case
      when num_nonnulls(from_end, from_offset, from_time) = 0 then 'earliest' else from_end
    end,
    to_offset => from_offset, to_time => from_time
  ) p
  cross join lateral gapless.log_ends(wanted, p.partition_no) e
  where c.group_id = create_replay.group_id and c.topic_id = wanted
    and c.partition_id = p.partition_no;
  select sum(c.stop_offset - c.start_offset) into events
  from gapless.consumer_offsets c where c.group_id = create_replay.group_id;
  insert into gapless.audit (action, group_id, topic_id, detail)
  values ('replay', create_replay.group_id, wanted, jsonb_build_object('events', events));
  return events;
end
$$;

-- Make a scratch group for a transaction that is to be rolled back: a dry run. The ranges are those that
-- create_replay() found; start inclusive, stop exclusive.
-- MUST NOT lock the topic, as create_replay() does: who changes its partitions would wait for the dry run,
-- and the sequencer for them.
create or replace function gapless.create_trial(
  group_id text, topic text, partitions int[], starts bigint[], stops bigint[]
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  wanted int := gapless.topic_id(topic);
begin
  insert into gapless.consumer_group (group_id, topic_id, is_scratch)
  values (create_trial.group_id, wanted, true);
  insert into gapless.consumer_offsets
    (group_id, topic_id, partition_id, next_offset, start_offset, stop_offset)
  select create_trial.group_id, wanted, u.partition_id, u.start, u.start, u.stop
  from unnest(create_trial.partitions, create_trial.starts, create_trial.stops)
    as u (partition_id, start, stop);
end
$$;

-- Take a partition of a replay: this session holds its advisory lock (7427003, lease_no). A former
-- holder cannot commit any more (I7). Returns the new epoch, and whether the former one died at work.
create or replace function gapless.take_replay(
  group_id text, topic_id int, partition_id int, token uuid, out epoch bigint, out unclean boolean
)
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  update gapless.consumer_offsets c
  set epoch = c.epoch + 1, token = take_replay.token, installed_offset = c.next_offset
  from (
    select o.installed_offset is not null as unclean
    from gapless.consumer_offsets o
    join gapless.consumer_group g using (group_id, topic_id)
    where o.group_id = take_replay.group_id and o.topic_id = take_replay.topic_id
      and o.partition_id = take_replay.partition_id and g.is_scratch
    for update of o
  ) o
  where c.group_id = take_replay.group_id and c.topic_id = take_replay.topic_id
    and c.partition_id = take_replay.partition_id
  returning c.epoch, o.unclean
$$;

-- Remove a group with its offsets, leases and letters; the log stays, so it can be made again.
-- Returns how many units were in its dead letter queue. Raises GL423 while somebody works for it.
create or replace function gapless.drop_group(group_id text)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  part record;
  letters bigint;
begin
  perform from gapless.group_partitions(drop_group.group_id);
  for part in
    select l.lease_no from gapless.lease l
    where l.group_id = drop_group.group_id order by l.lease_no
  loop
    if not pg_try_advisory_xact_lock(7427003, part.lease_no) then
      raise exception 'somebody works for group "%": stop that first', drop_group.group_id
        using errcode = 'GL423';
    end if;
  end loop;
  if exists (
    select from gapless.member_group m where m.group_id = drop_group.group_id
  ) then
    raise exception 'supervisors run for group "%": stop them first', drop_group.group_id
      using errcode = 'GL423';
  end if;
  delete from gapless.delivery v where v.group_id = drop_group.group_id;
  delete from gapless.dead_letter_key k where k.group_id = drop_group.group_id;
  delete from gapless.dead_letter_event e where e.group_id = drop_group.group_id;
  delete from gapless.dead_letter d where d.group_id = drop_group.group_id;
  get diagnostics letters = row_count;
  insert into gapless.audit (action, group_id, topic_id, partition_id, detail)
  select 'drop', c.group_id, c.topic_id, c.partition_id, jsonb_build_object('from', c.next_offset)
  from gapless.consumer_offsets c where c.group_id = drop_group.group_id;
  delete from gapless.consumer_offsets c where c.group_id = drop_group.group_id;
  delete from gapless.lease l where l.group_id = drop_group.group_id;
  delete from gapless.consumer_group g where g.group_id = drop_group.group_id;
  return letters;
end
$$;
