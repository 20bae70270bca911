-- Return the number of events of an id without a topic. Null: none. An id that shares the row of id 0 is given a row of
-- its
-- own: for that, the ids of that row are read.
create or replace function gapless.list_unrouted(_topic_id int) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  found_events bigint;
  shared gapless.unrouted;
  state gapless.sequencer;
begin
  select u.events into found_events from gapless.unrouted u
  where u.topic_id = _topic_id and u.topic_id <> 0;
  if found then
    return found_events;
  end if;
  select * into shared from gapless.unrouted u where u.topic_id = 0 for update;
  if not found then
    return null;
  end if;
  -- MUST come after the lock: no run counts in that row any more, and those before it are visible.
  select * into strict state from gapless.sequencer s order by s.run desc limit 1;
  insert into gapless.unrouted (topic_id, events, first_id, last_id, since_ts)
  select _topic_id, count(*), min(o.id), max(o.id), shared.since_ts
  from gapless.outbox_message_t o
  where o.id between shared.first_id and shared.last_id and o.topic_id = _topic_id
    and (o.id <= state.floor_id or pg_visible_in_snapshot(o.xid, state.snapshot))
  having count(*) > 0
  returning events into found_events;
  update gapless.unrouted u set events = u.events - found_events
  where u.topic_id = 0 and found_events is not null;
  delete from gapless.unrouted u where u.topic_id = 0 and u.events <= 0;
  return found_events;
end
$$;
