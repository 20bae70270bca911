-- Return the effect of attach(), with the rows to copy; changes nothing, and raises the errors of attach().
-- missing_ids: numbers between the first and the last id that no row has, which are taken for rolled back.
-- Reads the whole index of the id.
create or replace function gapless.attach_plan(
  _source text, _topic text, _id_column text, _map jsonb, _places jsonb, _despite_changes boolean
) returns table (
  table_name text, topic text, id_column text, columns jsonb, places jsonb, partitions int,
  rows bigint, first_id bigint, last_id bigint, missing_ids bigint
)
language plpgsql stable
set row_security = off as $$
#variable_conflict use_column
declare
  made gapless.attached := gapless.checked_attachment(_source, _topic, _id_column, _map, _places);
begin
  perform gapless.refuse_changing(made.table_id, _despite_changes);
  table_name := made.table_name;
  topic := _topic;
  id_column := made.id_column;
  columns := jsonb_strip_nulls(made.map);
  places := made.places;
  select t.partitions into partitions from gapless.topic t where t.topic_id = made.topic_id;
  execute format('select count(*), min(r.%1$I), max(r.%1$I) from only %2$s r', made.id_column, made.table_id::regclass)
    into rows, first_id, last_id;
  missing_ids := least(coalesce(last_id::numeric - first_id + 1 - rows, 0), 9223372036854775807);
  return next;
end
$$;
