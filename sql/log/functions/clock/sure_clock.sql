-- Return a time that has certainly come: the clock, or, for an hour after a step ahead, the clock without that step
-- (look_at_clock.sql). Deletions by age use it, so a clock that is ahead for a moment deletes nothing.
-- only_steps: time without a look, because no supervisor ran, counts as time: publishers ask for this, whose keys must
-- not last longer for that. While a supervisor runs, a step that it has yet to look at is doubted, too.
create or replace function gapless.sure_clock(_only_steps boolean default false) returns timestamptz
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce((
    select case
      when n.now_ts >= c.doubted_ts and n.now_ts < c.doubted_ts + interval '1 hour' then
        case when c.is_step or not _only_steps then c.sure_ts + (n.now_ts - c.doubted_ts) end
      when n.now_ts > c.looked_ts + interval '5 min' then case when gapless.is_role_held() then c.looked_ts end
    end
    from gapless.clock_look c
  ), n.now_ts)
  from (select clock_timestamp() as now_ts offset 0) n
$$;
