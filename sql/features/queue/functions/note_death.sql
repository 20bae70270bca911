-- Note that the worker that had this range of a queue group in hand died, so that the range is taken one event at a
-- time from now on, each attempt written down before. Returns 'noted'; 'done' when the range was committed after all,
-- is below the floor, or is not next in its block and in the log: it was delivered before a seek, or by a server that
-- is gone; 'busy' when the session is still there: end it, or ask again. A reservation of the worker lapses at once.
-- holder: the worker that died; events that others took since stay theirs.
-- locks: (7427003, lease_no) shared and the block's, by try
create or replace function gapless.note_death(
  _lease_no int, _first_offset bigint, _last_offset bigint, _holder text default null
) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  here gapless.queue_floor := gapless.floor_of(_lease_no);
  part record;
  block_last bigint;
begin
  if here.block is null then
    return 'done';
  end if;
  select l.topic_id, l.partition_id into part from gapless.lease l where l.lease_no = _lease_no;
  if not pg_try_advisory_xact_lock_shared(7427003, _lease_no) or not pg_try_advisory_xact_lock(
    7427006, gapless.block_key(_lease_no, (_first_offset - 1) / here.block)
  ) then
    return 'busy';
  end if;
  here := gapless.floor_of(_lease_no);    -- MUST come after the locks
  if _first_offset < here.next_offset then
    return 'done';
  end if;
  update gapless.queue_range r set token = null, deadline = '-infinity'
  where r.lease_no = _lease_no and r.first_offset between _first_offset and _last_offset and r.deadline is not null
    and r.ctid = any (array(
      select q.ctid from gapless.queue_range q
      where q.lease_no = _lease_no and q.first_offset between _first_offset and _last_offset
        and q.deadline is not null and coalesce(q.holder = _holder, _holder is null)
      for update skip locked
    ));
  if not found then
    block_last := ((_first_offset - 1) / here.block + 1) * here.block;
    -- MUST be the offset that take_next() would take next: it looks for open events of a block behind all ranges.
    if _first_offset <> greatest(block_last - here.block + 1, here.next_offset, (
        select r.last_offset + 1 from gapless.queue_range r
        where r.lease_no = _lease_no and r.first_offset between here.next_offset and block_last
        order by r.first_offset desc limit 1
      ))
      or _last_offset > block_last
      or _last_offset >= (select e.end_offset from gapless.log_ends(part.topic_id, part.partition_id) e)
    then
      return 'done';
    end if;
    insert into gapless.queue_range (lease_no, first_offset, last_offset, tries, deadline, holder, since_ts)
    values (_lease_no, _first_offset, _last_offset, 1, '-infinity', 'died', clock_timestamp());
  end if;
  perform pg_notify('gapless_p_' || part.topic_id || '_' || part.partition_id, 'letter');
  return 'noted';
end
$$;
