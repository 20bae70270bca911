-- End the reservations of a process that took events and is gone: they lapse now, and other workers take the events one
-- at a time. Returns the number of ranges and units; null: some of them are in a transaction that has not ended,
-- perhaps the dead process's last one, which may still commit: ask again. Waits for no session. worker: a text that no
-- other process has. The token is removed (Q2): if the process lives after all, its answers are refused.
-- Reads the ranges above all floors of queue groups: call it after a death, not in a loop.
create or replace function gapless.end_holder(_worker text) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  now_ts timestamptz := clock_timestamp();
  ended int := 0;
  is_left boolean := false;
  each record;
  partitions text[] := '{}';
begin
  for each in
    select r.lease_no, r.first_offset, l.topic_id || '_' || l.partition_id as partition
    from gapless.lease l
    cross join lateral gapless.floor_of(l.lease_no) f
    join gapless.queue_range r
      on r.lease_no = l.lease_no and r.first_offset >= f.next_offset and r.holder = _worker and r.deadline > now_ts
  loop
    update gapless.queue_range r set token = null, deadline = '-infinity'
    where r.ctid = (
      select q.ctid from gapless.queue_range q
      where q.lease_no = each.lease_no and q.first_offset = each.first_offset and q.holder = _worker
        and q.deadline > now_ts
      for update skip locked
    );
    is_left := is_left or not found;
    ended := ended + found::int;
    partitions := partitions || each.partition;
  end loop;
  for each in
    select d.group_id, d.topic_id, d.partition_id, d.first_offset, d.topic_id || '_' || d.partition_id as partition
    from gapless.dead_letter d
    where d.state = 'waiting' and d.worker = _worker and d.token is not null
  loop
    update gapless.dead_letter d set token = null, next_attempt_ts = now_ts
    where d.ctid = (
      select w.ctid from gapless.dead_letter w
      where w.group_id = each.group_id and w.topic_id = each.topic_id and w.partition_id = each.partition_id
        and w.first_offset = each.first_offset and w.state = 'waiting' and w.worker = _worker
        and w.token is not null
      for update skip locked
    );
    is_left := is_left or not found;
    ended := ended + found::int;
    partitions := partitions || each.partition;
  end loop;
  perform pg_notify('gapless_p_' || p, 'letter') from (select distinct unnest(partitions)) as w (p);
  return case when not is_left then ended end;
end
$$;
