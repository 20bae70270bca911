-- Return the first open offsets of a block that lie in front of one of its ranges; nulls: there are none. A block is
-- taken from its beginning on, so a gap exists only where a range was noted by mistake. MUST stay one statement: a
-- sweep moves the floor and forgets the ranges below it. Before: the caller has the block's lock.
-- index: queue_range_pkey, from the last range on that begins before the block
create or replace function gapless.gap_in_block(
  _lease_no int, _block_first bigint, _block_last bigint, out first_offset bigint, out last_offset bigint
)
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
  select g.low, g.high
  from (
    select greatest(f.next_offset, _block_first, lag(r.last_offset) over (order by r.first_offset) + 1) as low,
      r.first_offset - 1 as high
    from gapless.floor_of(_lease_no) f
    join gapless.queue_range r
      on r.lease_no = _lease_no and r.first_offset <= _block_last and r.first_offset >= coalesce(
        (
          select q.first_offset from gapless.queue_range q
          where q.lease_no = _lease_no and q.first_offset between f.next_offset and _block_first
          order by q.first_offset desc limit 1
        ), f.next_offset)
  ) g
  where g.low <= g.high
  order by g.low limit 1
$$;
