-- Make a topic of an id that producers have used and nobody had made: events that were kept get their
-- offsets in the next run of the sequencer, before newer ones of the topic. Returns how many were kept.
--   select gapless.adopt_topic(77, 'orders', 8);
-- An id that has no events is refused, and so is a name that there is.
create or replace function gapless.adopt_topic(
  topic_id int, name text, partitions int, keep_s double precision default null
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  kept bigint;
begin
  lock table gapless.guard_topics in exclusive mode;
  if exists (select from gapless.topic t where t.name = adopt_topic.name) then
    raise exception 'there is a topic "%" already: give id % another name', name, adopt_topic.topic_id
      using errcode = 'GL409';
  end if;
  kept := gapless.list_unrouted(adopt_topic.topic_id);
  if kept is null then
    raise exception 'no event without a topic has id %: see gapless topics', adopt_topic.topic_id
      using errcode = 'GL404';
  end if;
  insert into gapless.topic (topic_id, name, partitions, retention)
  values (
    adopt_topic.topic_id, adopt_topic.name, adopt_topic.partitions,
    make_interval(secs => adopt_topic.keep_s)
  );
  insert into gapless.audit (action, group_id, topic_id, detail)
  values (
    'adopt', '', adopt_topic.topic_id,
    jsonb_build_object('topic', adopt_topic.name, 'events', kept)
  );
  perform pg_notify('gapless_sequencer', '');
  return kept;
end
$$;

-- Give up the events of an id that nobody made (null: of all such ids): they are deleted, for no group has
-- ever seen them. Returns how many. One that the sequencer has yet to see stays.
create or replace function gapless.discard_unrouted(topic_id int default null)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  state gapless.sequencer;
  gone bigint;
begin
  if discard_unrouted.topic_id is not null then
    perform gapless.list_unrouted(discard_unrouted.topic_id);
  end if;
  perform from gapless.unrouted u order by u.topic_id for update;
  -- MUST come after the locks: no run counts in these rows any more, and those before it are seen.
  select * into strict state from gapless.sequencer s order by s.run desc limit 1;
  with
  discarded as (
    delete from gapless.unrouted u
    where u.topic_id = coalesce(discard_unrouted.topic_id, u.topic_id)
    returning u.topic_id, u.events, u.first_id, u.last_id
  ),
  noted as (
    insert into gapless.audit (action, group_id, topic_id, detail)
    select 'discard-unrouted', '', d.topic_id, jsonb_build_object('events', d.events)
    from discarded d
  )
  delete from gapless.outbox_message_t o
  where o.id between (select min(d.first_id) from discarded d) and (select max(d.last_id) from discarded d)
    and (discard_unrouted.topic_id is null or o.topic_id = discard_unrouted.topic_id)
    and not exists (select from gapless.topic t where t.topic_id = o.topic_id)
    and (o.id <= state.floor_id or pg_visible_in_snapshot(o.xid, state.snapshot));
  get diagnostics gone = row_count;
  return gone;
end
$$;

-- How many events without a topic has an id? Null: none. One that shares the row of id 0 is given one of
-- its own: for that, the ids of that row are read.
create or replace function gapless.list_unrouted(topic_id int)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  found_events bigint;
  shared gapless.unrouted;
  state gapless.sequencer;
begin
  select u.events into found_events from gapless.unrouted u
  where u.topic_id = list_unrouted.topic_id and u.topic_id <> 0;
  if found then
    return found_events;
  end if;
  select * into shared from gapless.unrouted u where u.topic_id = 0 for update;
  if not found then
    return null;
  end if;
  -- MUST come after the lock: no run counts in that row any more, and those before it are seen.
  select * into strict state from gapless.sequencer s order by s.run desc limit 1;
  insert into gapless.unrouted (topic_id, events, first_id, last_id, since_ts)
  select list_unrouted.topic_id, count(*), min(o.id), max(o.id), shared.since_ts
  from gapless.outbox_message_t o
  where o.id between shared.first_id and shared.last_id and o.topic_id = list_unrouted.topic_id
    and (o.id <= state.floor_id or pg_visible_in_snapshot(o.xid, state.snapshot))
  having count(*) > 0
  returning events into found_events;
  update gapless.unrouted u set events = u.events - found_events
  where u.topic_id = 0 and found_events is not null;
  delete from gapless.unrouted u where u.topic_id = 0 and u.events <= 0;
  return found_events;
end
$$;
