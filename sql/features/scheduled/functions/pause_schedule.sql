-- Pause a schedule until resume_schedule(); false: it is paused already. Due times in that time pass, and are not made
-- up for.
create or replace function gapless.pause_schedule(name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  own gapless.schedule := gapless.require_schedule(pause_schedule.name);
begin
  if own.paused_ts is not null then
    return false;
  end if;
  update gapless.schedule s set paused_ts = gapless.clock() where s.name = own.name;
  perform gapless.note_schedule('pause-schedule', own.name, own.topic_id);
  return true;
end
$$;
