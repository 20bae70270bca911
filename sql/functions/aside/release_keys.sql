-- park-key: a unit that parks others, or is parked, has rows in dead_letter_key. A parked unit follows
-- once no earlier unit has a key of its own: then it becomes 'waiting', due now. Earlier is a lower
-- offset or, when the number of partitions was changed, another partition of an earlier layout.
--
-- Who takes keys away, and who parks, look under one lock that is held until their COMMIT: else a unit
-- could be parked behind one that is being discarded, and nobody would ever release it. MUST take the
-- lock in a statement of its own: the look needs a snapshot from after it.

-- Take the keys of a unit away, because it was handled or discarded; returns how many follow now.
-- locks: the group's row of guard_keys until the transaction ends, if the unit had keys
create or replace function gapless.release_keys(
  group_id text, topic_id int, partition_id int, first_offset bigint
)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
  freed bytea[];
  next record;
  following int := 0;
begin
  perform from gapless.dead_letter_key k
  where k.group_id = release_keys.group_id and k.topic_id = release_keys.topic_id
    and k.partition_id = release_keys.partition_id and k.first_offset = release_keys.first_offset;
  if not found then
    return 0;
  end if;
  perform gapless.lock_keys(release_keys.group_id, release_keys.topic_id, release_keys.partition_id);
  with gone as (
    delete from gapless.dead_letter_key k
    where k.group_id = release_keys.group_id and k.topic_id = release_keys.topic_id
      and k.partition_id = release_keys.partition_id and k.first_offset = release_keys.first_offset
    returning k.key_digest
  )
  select array_agg(g.key_digest) into freed from gone g;
  for next in
    select n.partition_id, array_agg(distinct n.first_offset) as first_offsets
    from unnest(freed) as f (digest)
    cross join lateral (
      select h.in_partition as partition_id, h.at_offset as first_offset
      from gapless.key_heads(
        release_keys.group_id, release_keys.topic_id, release_keys.partition_id, f.digest
      ) h
      order by gapless.layout_of(release_keys.topic_id, h.in_partition, h.at_offset)
      limit 1
    ) n
    group by n.partition_id
  loop
    following := following + gapless.unpark(
      release_keys.group_id, release_keys.topic_id, next.partition_id, next.first_offsets
    );
    if next.partition_id <> release_keys.partition_id then
      perform pg_notify('gapless_p_' || topic_id || '_' || next.partition_id, 'letter');
    end if;
  end loop;
  return following;
end
$$;

-- The end of a transaction that parked these units: those in front of which nobody is any more (a
-- person has discarded that one meanwhile) follow at once. The caller's next statement is COMMIT.
-- locks: the group's row of guard_keys until the transaction ends
create or replace function gapless.settle_parked(
  group_id text, topic_id int, partition_id int, first_offsets bigint[]
)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform gapless.lock_keys(
    settle_parked.group_id, settle_parked.topic_id, settle_parked.partition_id
  );
  return gapless.unpark(
    settle_parked.group_id, settle_parked.topic_id, settle_parked.partition_id,
    settle_parked.first_offsets
  );
end
$$;

-- Of these units let those follow that are parked and have nobody in front; returns how many.
create or replace function gapless.unpark(
  group_id text, topic_id int, partition_id int, first_offsets bigint[]
)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
  following int;
begin
  update gapless.dead_letter d
  set state = 'waiting', next_attempt_ts = clock_timestamp()
  where d.group_id = unpark.group_id and d.topic_id = unpark.topic_id
    and d.partition_id = unpark.partition_id and d.first_offset = any (unpark.first_offsets)
    and coalesce(d.state, '') = 'parked'    -- by the primary key, as in claim_letter()
    and not exists (
      select from gapless.dead_letter_key mine
      where mine.group_id = d.group_id and mine.topic_id = d.topic_id
        and mine.partition_id = d.partition_id and mine.first_offset = d.first_offset
        and gapless.is_behind(
          d.group_id, d.topic_id, d.partition_id, d.first_offset, mine.key_digest
        )
    );
  get diagnostics following = row_count;
  return following;
end
$$;

-- The first unit that holds a key, in each partition in which events with that key may be. One look-up
-- for each, however many are parked. Within a partition an earlier layout has the lower offsets.
create or replace function gapless.key_heads(
  group_id text, topic_id int, partition_id int, key_digest bytea
)
returns table (in_partition int, at_offset bigint)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
  select p, h.first_offset
  from unnest(gapless.key_partitions(key_heads.topic_id, key_heads.partition_id)) p
  cross join lateral (
    select k.first_offset from gapless.dead_letter_key k
    where k.group_id = key_heads.group_id and k.topic_id = key_heads.topic_id
      and k.partition_id = p and k.key_digest = key_heads.key_digest
    order by k.first_offset limit 1
  ) h
$$;

-- Is a key held by a unit that comes before this one?
create or replace function gapless.is_behind(
  group_id text, topic_id int, partition_id int, first_offset bigint, key_digest bytea
)
returns boolean
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select from gapless.key_heads(
      is_behind.group_id, is_behind.topic_id, is_behind.partition_id, is_behind.key_digest
    ) h
    where gapless.is_ahead(
      is_behind.topic_id, h.in_partition, h.at_offset, is_behind.partition_id,
      is_behind.first_offset
    )
  )
$$;

create or replace function gapless.lock_keys(group_id text, topic_id int, partition_id int)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  -- Of the whole group: a key may have been in another partition before.
  number int := (
    select g.group_no from gapless.consumer_group g
    where g.group_id = lock_keys.group_id and g.topic_id = lock_keys.topic_id
  );
begin
  insert into gapless.guard_keys (group_no) values (number) on conflict do nothing;
  perform from gapless.guard_keys k where k.group_no = number for update;
end
$$;

-- Does any unit of this partition, or of one its keys were in before, hold a key? For every claim under
-- park-key; one look-up, as long as the number of partitions was never changed.
create or replace function gapless.holds_keys(group_id text, topic_id int, partition_id int)
returns boolean
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
  select exists (
    select from gapless.dead_letter_key k
    where k.group_id = holds_keys.group_id and k.topic_id = holds_keys.topic_id
      and k.partition_id = any (
        gapless.key_partitions(holds_keys.topic_id, holds_keys.partition_id)
      )
  )
$$;

-- The keys of units of the log, and which of them an earlier unit holds. message_ids are events,
-- first_offsets, of the same length, the units they belong to. One row for each key of each unit.
create or replace function gapless.unit_keys(
  group_id text, topic_id int, partition_id int, message_ids bigint[], first_offsets bigint[]
)
returns table (first_offset bigint, key_digest bytea, is_held boolean)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off
set enable_mergejoin = off
set enable_seqscan = off
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
begin
  return query
  select t.unit, t.digest,
    gapless.is_behind(
      unit_keys.group_id, unit_keys.topic_id, unit_keys.partition_id, t.unit, t.digest
    )
  from (
    select distinct u.unit, o.digest
    from unnest(unit_keys.message_ids, unit_keys.first_offsets) as u (id, unit)
    cross join lateral (
      select gapless.key_digest(m) as digest
      from gapless.outbox_message_t m where m.id = u.id offset 0
    ) o
  ) t;
end
$$;

-- Does the unit at one place come before the one at the other, as far as they share a key? By offset;
-- in different partitions, by their layouts.
create or replace function gapless.is_ahead(
  topic_id int, partition_id int, first_offset bigint, other_partition int, other_offset bigint
)
returns boolean
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select case
    when is_ahead.partition_id = is_ahead.other_partition
      then is_ahead.first_offset < is_ahead.other_offset
    else gapless.layout_of(is_ahead.topic_id, is_ahead.partition_id, is_ahead.first_offset)
      < gapless.layout_of(is_ahead.topic_id, is_ahead.other_partition, is_ahead.other_offset)
  end
$$;

-- The units parked behind one, directly or behind another that is, in whatever partition: a change of
-- their number may have moved a key.
create or replace function gapless.parked_after(
  group_id text, topic_id int, partition_id int, first_offset bigint
)
returns table (parked_partition int, parked_offset bigint, events int)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  with recursive
  behind (place, unit) as (
    select parked_after.partition_id, parked_after.first_offset
    union
    select theirs.partition_id, theirs.first_offset
    from behind b
    join gapless.dead_letter_key mine
      on mine.group_id = parked_after.group_id and mine.topic_id = parked_after.topic_id
      and mine.partition_id = b.place and mine.first_offset = b.unit
    join gapless.dead_letter_key theirs
      on theirs.group_id = mine.group_id and theirs.topic_id = mine.topic_id
      and theirs.partition_id = any (gapless.key_partitions(mine.topic_id, mine.partition_id))
      and theirs.key_digest = mine.key_digest
      and gapless.is_ahead(
        mine.topic_id, mine.partition_id, mine.first_offset, theirs.partition_id, theirs.first_offset
      )
  )
  select d.partition_id, d.first_offset, d.events
  from behind b
  join gapless.dead_letter d
    on d.group_id = parked_after.group_id and d.topic_id = parked_after.topic_id
    and d.partition_id = b.place and d.first_offset = b.unit
  where d.state = 'parked'
    and (b.place, b.unit) <> (parked_after.partition_id, parked_after.first_offset)
  order by 1, 2
$$;

-- The same, in the unit's own partition.
create or replace function gapless.parked_behind(
  group_id text, topic_id int, partition_id int, first_offset bigint
)
returns table (parked_offset bigint, events int)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select a.parked_offset, a.events
  from gapless.parked_after(
    parked_behind.group_id, parked_behind.topic_id, parked_behind.partition_id,
    parked_behind.first_offset
  ) a
  where a.parked_partition = parked_behind.partition_id
  order by 1
$$;
