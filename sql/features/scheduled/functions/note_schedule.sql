-- Audit a person's change of a schedule, and wake the sequencer, which learns the next due time.
create or replace function gapless.note_schedule(_action text, _name text, _topic_id int) returns void
language plpgsql as $$
begin
  insert into gapless.audit (action, group_id, topic_id, detail)
  values (_action, '', _topic_id, jsonb_build_object('schedule', _name));
  if not gapless.sequencer_polls() then
    perform pg_notify('gapless_sequencer', 'later');
  end if;
end
$$;
