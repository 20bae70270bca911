-- Store a capture, and audit its creation; returns its number. A part of capture().
create or replace function gapless.note_capture(_made gapless.captured) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  number int;
begin
  insert into gapless.captured
    (table_name, table_id, topic_id, key, key_parts, key_numbers, columns, column_numbers, old)
  values (
    _made.table_name, _made.table_id, _made.topic_id, _made.key, _made.key_parts, _made.key_numbers,
    _made.columns, _made.column_numbers, _made.old
  )
  returning capture_id into number;
  insert into gapless.audit (action, group_id, topic_id, detail)
  values ('capture', '', _made.topic_id, jsonb_build_object('table', _made.table_name));
  return number;
end
$$;
