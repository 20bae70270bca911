-- Resume a paused schedule with its next due time from now; false: it was not paused.
create or replace function gapless.resume_schedule(name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  own gapless.schedule := gapless.require_schedule(resume_schedule.name);
begin
  if own.paused_ts is null then
    return false;
  end if;
  update gapless.schedule s
  set paused_ts = null, trouble = null,
    next_due = gapless.schedule_next(own, greatest(gapless.clock(), own.last_due))
  where s.name = own.name;
  perform gapless.note_schedule('resume-schedule', own.name, own.topic_id);
  return true;
end
$$;
