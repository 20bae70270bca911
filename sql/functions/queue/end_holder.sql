-- A process that took events as this worker is gone: what it has in hand by reservation lapses now, so that
-- others take it, one event at a time. Returns how many ranges and units. worker is a text that no other
-- process has. Reads the ranges above all floors of queue groups: for a death, not for a loop.
create or replace function gapless.end_holder(_worker text)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
  ended int;
  more int;
begin
  with lapsed as (
    update gapless.queue_range r set token = null, deadline = '-infinity'
    from gapless.lease l
    cross join lateral gapless.floor_of(l.lease_no) f
    where r.lease_no = l.lease_no and r.first_offset >= f.next_offset and r.holder = _worker
      and r.deadline > clock_timestamp()
    returning l.topic_id, l.partition_id
  ),
  told as (
    select distinct d.topic_id, d.partition_id from lapsed d
  )
  select (select count(*) from lapsed), count(pg_notify('gapless_p_' || t.topic_id || '_' || t.partition_id, 'letter'))
  into ended, more
  from told t;
  with lapsed as (
    update gapless.dead_letter d set token = null, next_attempt_ts = clock_timestamp()
    where d.state = 'waiting' and d.worker = _worker and d.token is not null
    returning d.topic_id, d.partition_id
  ),
  told as (
    select distinct d.topic_id, d.partition_id from lapsed d
  )
  select ended + (select count(*) from lapsed),
    count(pg_notify('gapless_p_' || t.topic_id || '_' || t.partition_id, 'letter'))
  into ended, more
  from told t;
  return ended;
end
$$;
