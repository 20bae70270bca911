-- At-least-once handlers are called outside any transaction. Before and after calls their driver notes
-- here, in one transaction, what has ended and what begins; only the finished prefix moves the offset.
-- So a crash repeats at most what was begun and not noted as finished, and loses nothing.
--   expected  the group's next_offset as the caller knows it
--   ended     units (by their first offset) whose call ended, well or not; done: those of them, and
--             those never called, that need no other call
--   begun     units whose call begins after COMMIT, up to begun_last; begun_last is the end of each
--   upto      the group's next_offset from now on
-- Returns a row for each begun: which attempt it is, and how often it was begun in a row without an
-- end. One row of nulls: fenced (I7), or somebody moved the offset; nothing was written.
-- locks: the consumer_offsets row until the transaction ends
create or replace function gapless.note_deliveries(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid, expected bigint,
  ended bigint[], done bigint[], begun bigint[], begun_last bigint[], upto bigint
)
returns table (first_offset bigint, attempts int, crashes int)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
  perform from gapless.consumer_offsets c
  where c.group_id = note_deliveries.group_id and c.topic_id = note_deliveries.topic_id
    and c.partition_id = note_deliveries.partition_id and c.epoch = note_deliveries.epoch
    and c.token = note_deliveries.token and c.next_offset = note_deliveries.expected
  for update;
  if not found then
    return query select null::bigint, null::int, null::int;
    return;
  end if;
  update gapless.delivery d
  set crashes = 0, finished = d.first_offset = any (note_deliveries.done)
  where d.group_id = note_deliveries.group_id and d.topic_id = note_deliveries.topic_id
    and d.partition_id = note_deliveries.partition_id
    and d.first_offset = any (note_deliveries.ended || note_deliveries.done);
  -- What was parked ahead of an unfinished unit was never begun. Without a row it would be taken for
  -- open by the next owner, though it may have been handled, or discarded, meanwhile.
  insert into gapless.delivery as d
    (group_id, topic_id, partition_id, first_offset, last_offset, attempts, finished)
  select w.group_id, w.topic_id, w.partition_id, w.first_offset, w.last_offset, 0, true
  from gapless.dead_letter w
  where w.group_id = note_deliveries.group_id and w.topic_id = note_deliveries.topic_id
    and w.partition_id = note_deliveries.partition_id
    and w.first_offset = any (note_deliveries.done) and w.first_offset >= note_deliveries.upto
  on conflict on constraint delivery_pkey do nothing;
  if note_deliveries.upto > note_deliveries.expected then
    delete from gapless.delivery d
    where d.group_id = note_deliveries.group_id and d.topic_id = note_deliveries.topic_id
      and d.partition_id = note_deliveries.partition_id and d.first_offset < note_deliveries.upto;
    perform set_config('gapless.finished', pg_current_xact_id()::text, true);
    update gapless.consumer_offsets c set next_offset = note_deliveries.upto
    where c.group_id = note_deliveries.group_id and c.topic_id = note_deliveries.topic_id
      and c.partition_id = note_deliveries.partition_id;
    -- claim() was rolled back, and with it what it noted of a change of the number of partitions.
    perform gapless.enter_layout(
      note_deliveries.group_id, note_deliveries.topic_id, note_deliveries.partition_id,
      gapless.layout_of(
        note_deliveries.topic_id, note_deliveries.partition_id, note_deliveries.upto - 1
      )
    );
  end if;
  return query
  insert into gapless.delivery as d
    (group_id, topic_id, partition_id, first_offset, last_offset, attempts, crashes)
  select note_deliveries.group_id, note_deliveries.topic_id, note_deliveries.partition_id,
    b.first_offset, b.last_offset, 1, 1
  from unnest(note_deliveries.begun, note_deliveries.begun_last) as b (first_offset, last_offset)
  on conflict on constraint delivery_pkey do update
  set attempts = d.attempts + 1, crashes = d.crashes + 1
  returning d.first_offset, d.attempts, d.crashes;
end
$$;
