-- Return the leases of a member whose workers may have something to do, by number; null: none. One look for all of
-- them, which writes nothing: the other workers would find no event (claim_at()), no due unit set aside
-- (letters_due()), no change of layout, and no other owner.
-- index: consumer_offsets_pkey and log_segment's key, backwards, and dead_letter_open, a look-up for each partition
create or replace function gapless.due_leases(_member_id uuid) returns int[]
language sql stable security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '50ms'    -- MUST be short: heartbeats wait for it
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  select array_agg(l.lease_no)
  from gapless.member_group m
  join gapless.topic t using (topic_id)
  join gapless.lease l using (group_id, topic_id)
  where m.member_id = _member_id and l.owner = m.member_id
    and not exists (
      select from (    -- the newest version, as offset_row()
        select c.* from gapless.consumer_offsets c
        where c.group_id = l.group_id and c.topic_id = l.topic_id
          and c.partition_id between l.partition_id and l.partition_id
        order by c.partition_id desc limit 1
      ) c
      where (c.epoch, c.token) = (l.epoch, l.token) and c.passed >= t.layout and c.stopped_at is null
        and c.next_offset = 1 + coalesce(
          (
            select s.last_offset from gapless.log_segment s
            where s.topic_id = l.topic_id and s.partition_id = l.partition_id
            order by s.base_offset desc limit 1
          ), 0)
        and not exists (
          select from gapless.dead_letter d
          where d.group_id = l.group_id and d.topic_id = l.topic_id and d.partition_id = l.partition_id
            and d.state = 'waiting' and d.next_attempt_ts <= clock_timestamp()
        )
    )
$$;
