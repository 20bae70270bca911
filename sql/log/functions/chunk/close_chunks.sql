-- Record where the events of complete chunks lie. A chunk is complete when none of its ids can be given to an event any
-- more, and all events that were published with them have their offsets. Returns the number of chunks that it closed.
-- The sequencer's floor decides: ids up to it belong to transactions that have ended and were seen. A chunk with an
-- event of an unknown topic id stays open: the id may be adopted yet.
-- Cost: the segments written since the previous chunk are read once.
-- locks: guard_retention, so that one session does it
create or replace function gapless.close_chunks() returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off
set lock_timeout = '100ms'    -- to look at a chunk that is being dropped waits for it
as $$
declare
  state gapless.sequencer;
  bounds bigint[];      -- the first id after each complete chunk, ascending
  part record;
begin
  perform gapless.require_read_committed('close_chunks');
  begin
    lock table gapless.guard_retention in exclusive mode nowait;
  exception
    when lock_not_available then
      return 0;
  end;
  select * into strict state from gapless.sequencer s order by s.run desc limit 1;
  -- Stragglers of a re-base may hold any id below the floor.
  if state.stragglers <> '{}' then
    return 0;
  end if;
  select array_agg(c.upto order by c.upto) into bounds
  from gapless.chunk c, gapless.retention_state r
  where c.upto > r.closed_upto and c.upto <= state.floor_id + 1
    and not exists (select from gapless.unrouted u where u.first_id < c.upto);
  if bounds is null then
    return 0;
  end if;
  for part in
    select t.topic_id, p as partition_id, greatest(
      gapless.log_first(t.topic_id, p),
      (
        select max(e.next_offset) from gapless.chunk_end e
        where e.topic_id = t.topic_id and e.partition_id = p
      )) as from_offset
    from gapless.topic t
    cross join lateral generate_series(0, greatest(t.partitions, t.partitions_ever) - 1) p
  loop
    insert into gapless.chunk_end (upto, topic_id, partition_id, next_offset, events, newest_ts)
    select i.upto, part.topic_id, part.partition_id, u.last_offset + 1, i.events, u.sequenced_ts
    from (
      select bounds[width_bucket(e.id, bounds) + 1] as upto, count(*) as events,
        max(s.base_offset + e.n - 1) as c_offset
      from gapless.segments_from(part.topic_id, part.partition_id, part.from_offset, null) s
      cross join unnest(s.message_ids) with ordinality as e (id, n)
      where e.id < bounds[cardinality(bounds)] and s.base_offset + e.n - 1 >= part.from_offset
      group by 1
    ) i
    cross join lateral gapless.unit_end(part.topic_id, part.partition_id, i.c_offset) u;
  end loop;
  update gapless.retention_state set closed_upto = bounds[cardinality(bounds)];
  return cardinality(bounds);
end
$$;
