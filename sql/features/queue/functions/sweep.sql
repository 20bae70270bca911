-- Move the floor of a queue group's partition over finished events, and forget the ranges below it; returns the number
-- of events that it passed. Behind a straggler, neighbouring finished ranges become one, so that looks stay short
-- however long it takes. Waits for no session: one sweep at a time, others return 0. Without work it writes nothing.
-- Call it in a transaction of its own, with synchronous_commit off: lost work is done again.
-- locks: the consumer_offsets row, by try
-- index: queue_range_pkey from the floor on, 5000 rows at most
create or replace function gapless.sweep(_lease_no int) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  is_due boolean;
  part record;
  place tid;
  here gapless.queue_floor;
  each record;
  upto bigint;
  rows_read int := 0;
  run_first bigint;
  run_last bigint;
  run_rows int;
begin
  here := gapless.floor_of(_lease_no);
  -- Is it worth a lock, which is a write? Behind a straggler, once there are ranges to merge.
  select count(*) filter (where a.is_finished) >= 256 or bool_or(a.is_finished and a.first_offset = here.next_offset)
  into is_due
  from (
    select r.first_offset, r.deadline is null as is_finished from gapless.queue_range r
    where r.lease_no = _lease_no and r.first_offset >= here.next_offset
    order by r.first_offset
    limit 1000
  ) a;
  if is_due is not true then
    return 0;
  end if;
  select l.group_id, l.topic_id, l.partition_id into part from gapless.lease l where l.lease_no = _lease_no;
  -- By its place: a look-up by key walks all versions since an old snapshot.
  select c.ctid into place from gapless.consumer_offsets c
  where c.ctid = gapless.offset_row(part.group_id, part.topic_id, part.partition_id, here.place)
  for update skip locked;
  if not found then
    return 0;
  end if;
  here := gapless.floor_of(_lease_no);    -- MUST come after the lock
  upto := here.next_offset;
  for each in
    select r.first_offset, r.last_offset, r.deadline is null as is_finished from gapless.queue_range r
    where r.lease_no = _lease_no and r.first_offset >= here.next_offset
    order by r.first_offset
    limit 5000
  loop
    if each.is_finished and each.first_offset = upto then
      upto := each.last_offset + 1;
    elsif each.is_finished and each.first_offset = run_last + 1 then
      run_last := each.last_offset;
      run_rows := run_rows + 1;
    else
      perform gapless.merge_ranges(_lease_no, run_first, run_last, run_rows);
      run_first := case when each.is_finished then each.first_offset end;
      run_last := case when each.is_finished then each.last_offset end;
      run_rows := 1;
    end if;
  end loop;
  perform gapless.merge_ranges(_lease_no, run_first, run_last, run_rows);
  if upto > here.next_offset then
    perform gapless.put_floor(
      _lease_no, part.group_id, part.topic_id, part.partition_id, place, here, upto
    );
  end if;
  return upto - here.next_offset;
end
$$;
