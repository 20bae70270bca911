-- Return the next events of the partitions that a client holds, whole units in order, and renew its deadline.
--   select * from gapless.poll('gm_…', max_events => 100);
-- A unit (one publishing transaction's events of a partition) is first_offset to last_offset. When it is handled, with
-- all units before it in the partition, call gapless.commit(token, partition_id, last_offset + 1). Uncommitted units
-- come again with the next poll, alone, with attempt one higher, so a lost answer loses nothing. A unit during which a
-- member disappeared comes with no other unit. A redriven unit comes from the dead letter queue, out of order, and ends
-- with gapless.commit_redriven(token, partition_id, first_offset). Call gapless.reject_unit() for a unit that cannot be
-- handled.
-- max_events (1 to 10000): the last unit is whole even if it is longer. partitions: only these; a client that is at
-- work on one partition names the others. In the named partitions, units in hand are forgotten if the partition is
-- planned for another member. No row: nothing is new, or a notice says why a partition stands still, as heartbeat()
-- does, too. Call it in a transaction of its own, under READ COMMITTED.
-- Raises GL006 when the deadline has passed: join again; GL409 when the group was given a filter; GL400.
create or replace function gapless.poll(token text, max_events int default 100, partitions int[] default null)
returns table (
  partition_id int, c_offset bigint, first_offset bigint, last_offset bigint, attempt int, redriven boolean, key text,
  event_type text, payload json, headers jsonb, host_id text, user_id text, transaction_id uuid,
  created_ts timestamptz
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  me record;
  here record;
  crashes_max int;
  left_events int := poll.max_events;
  most int;
  given int;
  suspect int;    -- the partition of a unit during which a member disappeared
  reason text;
begin
  if (poll.max_events between 1 and 10000) is not true then
    raise exception 'max_events is from 1 to 10000, not %', coalesce(poll.max_events::text, 'null')
      using errcode = 'GL400';
  end if;
  select c.* into me from gapless.client_of(poll.token) c;
  perform gapless.renew_client(me.member_id, me.group_id, me.topic_id, me.expires_at, me.ttl);
  -- Seldom, as there: this is for people who look (lease/views/obstacles.sql).
  update gapless.member m set polled_ts = clock_timestamp()
  where m.ctid = gapless.member_row(me.member_id)
    and (m.polled_ts is null or m.polled_ts not between clock_timestamp() - me.ttl / 20 and clock_timestamp());
  perform gapless.take_leases(me.member_id, me.group_id, me.topic_id, poll.partitions);
  select g.max_crashes into crashes_max from gapless.consumer_group g
  where g.group_id = me.group_id and g.topic_id = me.topic_id;
  -- Such a unit comes with no other unit, of any partition, once: if this member disappears too, no other unit is
  -- blamed for it. Units that this member has in hand already do not count: a client that polls again gets the others,
  -- too.
  select l.partition_id into suspect
  from gapless.lease l
  join gapless.consumer_offsets c on c.ctid = gapless.offset_row(l.group_id, l.topic_id, l.partition_id)
  left join lateral (
    select d.crashes, d.epoch from gapless.letters_due(l.group_id, l.topic_id, l.partition_id, 1) f
    join gapless.dead_letter d
      on (d.group_id, d.topic_id, d.partition_id) = (l.group_id, l.topic_id, l.partition_id)
        and d.first_offset = f.first_offset
  ) letter on true
  left join gapless.delivery d
    on letter.crashes is null and not d.finished and d.first_offset = c.next_offset
      and (d.group_id, d.topic_id, d.partition_id) = (l.group_id, l.topic_id, l.partition_id)
  where l.group_id = me.group_id and l.topic_id = me.topic_id and l.owner = me.member_id
    and l.target = me.member_id and (poll.partitions is null or l.partition_id = any (poll.partitions))
    and coalesce(letter.crashes, d.crashes) > 0 and coalesce(letter.epoch, d.epoch) is distinct from l.epoch
  order by random()
  limit 1;
  for here in
    select l.partition_id, l.epoch, l.token
    from gapless.lease l
    where l.group_id = me.group_id and l.topic_id = me.topic_id and l.owner = me.member_id
      and l.target = me.member_id and (poll.partitions is null or l.partition_id = any (poll.partitions))
    -- In random order, so that no partition waits forever behind one that is always full.
    order by l.partition_id is distinct from suspect, random()
  loop
    exit when left_events <= 0;
    perform from gapless.consumer_offsets c
    where c.ctid = gapless.offset_row(me.group_id, me.topic_id, here.partition_id)
      and c.epoch = here.epoch and c.token = here.token
    for update skip locked;
    continue when not found;    -- a seek has locked it; or its row is gone
    continue when gapless.is_paused(me.group_id, me.topic_id, here.partition_id);
    most := case when here.partition_id = suspect then 1 else left_events end;
    return query
    select here.partition_id, a.c_offset, a.first_offset, a.last_offset, a.attempt, true, a.key, a.event_type,
      a.payload, a.headers, a.host_id, a.user_id, a.transaction_id, a.created_ts
    from gapless.deliver_units_again(
      me.group_id, me.topic_id, here.partition_id, here.epoch, here.token, most, crashes_max, me.name
    ) a;
    get diagnostics given = row_count;
    left_events := left_events - given;
    exit when left_events <= 0 or given > 0 and here.partition_id = suspect;
    most := least(most, left_events);
    return query
    select here.partition_id, a.c_offset, a.first_offset, a.last_offset, a.attempt, false, a.key, a.event_type,
      a.payload, a.headers, a.host_id, a.user_id, a.transaction_id, a.created_ts
    from gapless.deliver_units(
      me.group_id, me.topic_id, here.partition_id, here.epoch, here.token, most, crashes_max, me.name
    ) a;
    get diagnostics given = row_count;
    left_events := left_events - given;
    exit when given > 0 and here.partition_id = suspect;
  end loop;
  if left_events = poll.max_events then
    select format('partition %s: %s', l.partition_id, l.error) into reason
    from gapless.lease l
    where l.group_id = me.group_id and l.topic_id = me.topic_id and l.target = me.member_id and l.error is not null
    order by l.partition_id limit 1;
    if reason is not null then
      raise notice '%', reason;
    end if;
  end if;
end
$$;
