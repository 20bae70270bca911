-- Record calls of at-least-once handlers, which are called outside any transaction. Before and after calls their driver
-- records here, in one transaction, which have ended and which begin; only the finished prefix moves the offset. So a
-- crash repeats at most the calls that were begun and not recorded as finished, and loses nothing.
--   expected  the group's next_offset as the caller knows it
--   ended     units (by their first offset) whose call ended, well or not; done: those of them, and those never called,
--             that need no other call
--   begun     units whose call begins after COMMIT, up to begun_last; begun_last is the end of each
--   upto      the group's next_offset from now on
-- Returns a row for each begun unit: the number of this attempt, and the number of calls in a row that began without an
-- end. One row of nulls: fenced (I7), or another session moved the offset; nothing was written.
-- locks: the consumer_offsets row until the transaction ends
create or replace function gapless.note_deliveries(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid, _expected bigint,
  _ended bigint[], _done bigint[], _begun bigint[], _begun_last bigint[], _upto bigint
) returns table (first_offset bigint, attempts int, crashes int)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  place tid := gapless.lock_offset(_group_id, _topic_id, _partition_id, _epoch, _token);
  of_layout int;
begin
  select c.layout into of_layout from gapless.consumer_offsets c
  where c.ctid = place and c.next_offset = _expected;
  if not found then
    return query select null::bigint, null::int, null::int;
    return;
  end if;
  update gapless.delivery d
  set crashes = 0, finished = d.first_offset = any (_done)
  where d.group_id = _group_id and d.topic_id = _topic_id and d.partition_id = _partition_id
    and d.first_offset = any (_ended || _done);
  -- A unit that was parked ahead of an unfinished unit was never begun. Without a row the next owner would take it for
  -- open, though it may have been handled, or discarded, since.
  insert into gapless.delivery as d
    (group_id, topic_id, partition_id, first_offset, last_offset, attempts, finished)
  select w.group_id, w.topic_id, w.partition_id, w.first_offset, w.last_offset, 0, true
  from gapless.dead_letter w
  where w.group_id = _group_id and w.topic_id = _topic_id and w.partition_id = _partition_id
    and w.first_offset = any (_done) and w.first_offset >= _upto
  on conflict on constraint delivery_pkey do nothing;
  if _upto > _expected then
    delete from gapless.delivery d
    where d.group_id = _group_id and d.topic_id = _topic_id
      and d.partition_id = _partition_id and d.first_offset between _expected and _upto - 1;
    perform set_config('gapless.finished', pg_current_xact_id()::text, true);
    update gapless.consumer_offsets c set next_offset = _upto where c.ctid = place;
    -- claim() was rolled back, and with it the record of a change of the number of partitions.
    if of_layout < gapless.layout_of(_topic_id, _partition_id, _upto - 1) then
      perform gapless.enter_layout(
        _group_id, _topic_id, _partition_id, gapless.layout_of(_topic_id, _partition_id, _upto - 1)
      );
    end if;
  end if;
  return query
  insert into gapless.delivery as d
    (group_id, topic_id, partition_id, first_offset, last_offset, attempts, crashes)
  select _group_id, _topic_id, _partition_id,
    b.first_offset, b.last_offset, 1, 1
  from unnest(_begun, _begun_last) as b (first_offset, last_offset)
  on conflict on constraint delivery_pkey do update
  set attempts = d.attempts + 1, crashes = d.crashes + 1, began_ts = clock_timestamp()
  returning d.first_offset, d.attempts, d.crashes;
end
$$;
