-- skip_hole() of a queue group: the missing offsets around c_offset count as finished from now on, and no others. Open
-- events in front of them in their block are given back, because a block is taken from its beginning on. Waits for the
-- transactions that have the first and the last of these blocks in hand. Events in hand with a receipt stay so. Raises
-- GL409 where nothing is missing, or the group is past it. Before: the topic is locked.
-- locks: (7427003, lease_no) shared, the two blocks', until the transaction ends; lapsed ranges
create or replace function gapless.skip_missing(
  _group_id text, _topic text, _topic_id int, _partition_id int, _c_offset bigint,
  out first_offset bigint, out last_offset bigint, out missing bigint, out passed bigint
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  place int;
  here gapless.queue_floor;
  piece record;
  each record;
  pos bigint;
begin
  select l.lease_no into strict place from gapless.lease l
  where l.group_id = _group_id and l.topic_id = _topic_id and l.partition_id = _partition_id;
  perform pg_advisory_xact_lock_shared(7427003, place);
  here := gapless.floor_of(place);
  first_offset := greatest(_c_offset, here.next_offset);
  last_offset := first_offset - 1;
  loop
    select * into piece from gapless.missing_at(_topic_id, _partition_id, last_offset + 1);
    exit when piece.last_offset is null;
    last_offset := piece.last_offset;
  end loop;
  loop
    exit when first_offset <= here.next_offset or last_offset < first_offset;
    select * into piece from gapless.missing_at(_topic_id, _partition_id, first_offset - 1);
    exit when piece.first_offset is null;
    first_offset := greatest(piece.first_offset, here.next_offset);
  end loop;
  if _c_offset not between first_offset and last_offset then
    raise exception 'nothing that group "%" has not passed is missing at offset % of %/%: there is no hole to skip',
      _group_id, _c_offset, _topic, _partition_id
      using errcode = 'GL409';
  end if;
  perform pg_advisory_xact_lock(7427006, gapless.block_key(place, (o - 1) / here.block))
  from unnest(array[first_offset, last_offset]) o;
  here := gapless.floor_of(place);    -- MUST come after the locks
  first_offset := greatest(first_offset, here.next_offset);

  select greatest(first_offset - (first_offset - 1) % here.block, here.next_offset, (
      select r.last_offset + 1 from gapless.queue_range r
      where r.lease_no = place and r.first_offset between here.next_offset and skip_missing.first_offset - 1
      order by r.first_offset desc limit 1
    )) into pos;
  if pos < first_offset then
    insert into gapless.queue_range (lease_no, first_offset, last_offset, tries, deadline, holder, since_ts)
    values (place, pos, skip_missing.first_offset - 1, 0, '-infinity', 'skip', clock_timestamp());
  end if;

  -- Lapsed parts of it belong to no worker: their events are gone.
  for each in
    select r.* from gapless.queue_range r
    where r.lease_no = place and r.first_offset between here.next_offset and skip_missing.last_offset
      and r.last_offset >= skip_missing.first_offset and r.deadline <= clock_timestamp()
    order by r.first_offset
    for update skip locked
  loop
    delete from gapless.queue_range r where r.lease_no = place and r.first_offset = each.first_offset;
    insert into gapless.queue_range (lease_no, first_offset, last_offset, tries, deadline, holder, since_ts)
    select place, p.low, p.high, each.tries, '-infinity', each.holder, each.since_ts
    from (
      values (each.first_offset, skip_missing.first_offset - 1), (skip_missing.last_offset + 1, each.last_offset)
    ) p (low, high)
    where p.low <= p.high;
  end loop;
  pos := first_offset;
  missing := 0;
  for each in
    select r.first_offset, r.last_offset from gapless.queue_range r
    where r.lease_no = place and r.first_offset between here.next_offset and skip_missing.last_offset
      and r.last_offset >= skip_missing.first_offset
    union all
    select skip_missing.last_offset + 1, null
    order by 1
  loop
    if pos < each.first_offset then
      insert into gapless.queue_range (lease_no, first_offset, last_offset, holder)
      values (place, pos, each.first_offset - 1, 'skip');
      missing := missing + each.first_offset - pos;
    end if;
    pos := each.last_offset + 1;
  end loop;
  if missing = 0 then
    raise exception 'offsets % to % of %/% are missing, and group "%" has passed them, or they are in hand',
      first_offset, last_offset, _topic, _partition_id, _group_id
      using errcode = 'GL409';
  end if;
  passed := missing;
  perform gapless.sweep(place);
end
$$;
