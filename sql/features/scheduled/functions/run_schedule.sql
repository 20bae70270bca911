-- Publish the event of a schedule once more now, paused or not; its due times stay. Returns the transaction_id.
create or replace function gapless.run_schedule(name text) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  own gapless.schedule := gapless.require_schedule(run_schedule.name);
begin
  perform gapless.note_schedule('run-schedule', own.name, own.topic_id);
  return gapless.publish_due(own, gapless.clock(), true);
end
$$;
