-- Write down what a person did to a schedule, and wake the sequencer, which learns what is due next.
create or replace function gapless.note_schedule(_action text, _name text, _topic_id int)
returns void
language plpgsql
as $$
begin
  insert into gapless.audit (action, group_id, topic_id, detail)
  values (_action, '', _topic_id, jsonb_build_object('schedule', _name));
  if not gapless.sequencer_polls() then
    perform pg_notify('gapless_sequencer', 'later');
  end if;
end
$$;
