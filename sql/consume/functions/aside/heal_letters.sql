-- Correct the times of units that a clock set while it was ahead for a moment: they wait their own delay from now on,
-- and no longer. Only differences of at least a second count: smaller ones are adjustments, no steps. Sessions that
-- sequence, take or poll call it now and then.
-- Returns their number. locks: the units, by try: one in another session's hand heals at the next call
-- index: dead_letter_due_set
create or replace function gapless.heal_letters() returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  now_ts timestamptz := clock_timestamp();
  late_ts timestamptz := now_ts + interval '1 s';
  healed bigint := 0;
begin
  if exists (select from gapless.dead_letter d where d.state = 'waiting' and d.due_set_ts > late_ts) then
    update gapless.dead_letter d set next_attempt_ts = now_ts + (d.next_attempt_ts - d.due_set_ts)
    where d.ctid = any (array(
      select x.ctid from gapless.dead_letter x
      where x.state = 'waiting' and x.due_set_ts > late_ts
      limit 1000
      for update skip locked
    ));
    get diagnostics healed = row_count;
  end if;
  return healed;
end
$$;
