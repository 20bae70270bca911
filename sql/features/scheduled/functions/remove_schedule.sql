-- Remove a schedule; its published events stay. False: there is none of that name.
create or replace function gapless.remove_schedule(name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  id_of_topic int;
begin
  delete from gapless.schedule s where s.name = remove_schedule.name returning s.topic_id into id_of_topic;
  if not found then
    return false;
  end if;
  perform gapless.note_schedule('remove-schedule', remove_schedule.name, id_of_topic);
  return true;
end
$$;
