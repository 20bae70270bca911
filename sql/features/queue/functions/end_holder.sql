-- A process that took events as this worker is gone: what it has in hand by reservation lapses now, so that
-- others take it, one event at a time. Returns how many ranges and units; null: some of it is in a transaction
-- that has not ended, perhaps the dead one's last, which may still commit: ask again. Waits for nobody. worker is a
-- text that no other process has. The token goes (Q2): should it live after all, its answers are refused.
-- Reads the ranges above all floors of queue groups: for a death, not for a loop.
create or replace function gapless.end_holder(_worker text)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
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
