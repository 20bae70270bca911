-- Correct the times of scheduled events whose publishers gave a delay while the clock was ahead: they come within that
-- delay from now on. Only differences of at least a second count, as in heal_letters(). Events of one transaction and
-- time stay together (S3): those that an open cancel() holds are corrected at a later call. promote(), which has
-- guard_promoting, calls it. Returns the number of these events.
-- locks: the rows, by try. index: scheduled_counts_from, scheduled_xid
create or replace function gapless.heal_later() returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  now_ts timestamptz := clock_timestamp();
  late_ts timestamptz := now_ts + interval '1 s';
  healed bigint;
begin
  with wanted as materialized (
    select s.scheduled_id, s.xid, s.deliver_at
    from (
      select distinct x.xid, x.deliver_at
      from (
        select o.xid, o.deliver_at from gapless.scheduled o
        where o.counts_from > late_ts order by o.counts_from limit 1000
      ) x
    ) of_one
    join gapless.scheduled s using (xid, deliver_at)
    where s.counts_from > late_ts
  ),
  locked as materialized (
    select s.scheduled_id from gapless.scheduled s
    where s.scheduled_id = any (array(select w.scheduled_id from wanted w))
    for update skip locked
  ),
  judged as materialized (
    select w.scheduled_id, bool_and(l.scheduled_id is not null) over (partition by w.xid, w.deliver_at) as is_whole
    from wanted w
    left join locked l using (scheduled_id)
  )
  update gapless.scheduled s
  set deliver_at = now_ts + (s.deliver_at - s.counts_from), counts_from = now_ts
  where s.scheduled_id = any (array(select j.scheduled_id from judged j where j.is_whole));
  get diagnostics healed = row_count;
  return healed;
end
$$;
