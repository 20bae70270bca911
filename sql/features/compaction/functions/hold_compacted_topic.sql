-- Refuse to delete a topic while latest has events of it: a foreign key would be looked up for each row of a step. A
-- step holds a row of compaction until its end, so a session that deletes that row and the topic comes after it.
-- Raises 23503 as a foreign key does.
create or replace function gapless.hold_compacted_topic() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if exists (select from gapless.latest l where l.topic_id = old.topic_id) then
    raise exception 'topic "%": the newest events of its keys are there: gapless topics alter % --no-compact, %',
      old.name, old.name, 'and select gapless.compact() until it returns 0'
      using errcode = 'foreign_key_violation';
  end if;
  return old;
end
$$;

create or replace trigger hold_compacted_topic before delete on gapless.topic
for each row execute function gapless.hold_compacted_topic();
