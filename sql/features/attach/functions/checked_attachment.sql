-- Check the arguments of attach() and return them in the form of the table; raises GL400 and GL404, in one sentence.
create or replace function gapless.checked_attachment(
  _source text, _topic text, _id_column text, _map jsonb, _places jsonb
) returns gapless.attached
language plpgsql stable as $$
declare
  made gapless.attached;
begin
  made.table_id := gapless.table_of(_source);
  perform gapless.refuse_unattachable(_source, made.table_id);
  select format('%I.%I', n.nspname, r.relname) into made.table_name
  from pg_class r join pg_namespace n on n.oid = r.relnamespace where r.oid = made.table_id;
  if _topic is null then
    raise exception 'name the topic that the rows of % go to', made.table_name using errcode = 'GL400';
  end if;
  made.topic_id := gapless.topic_id(_topic);
  made.id_column := gapless.attached_id(made.table_id, _id_column);
  made.map := gapless.attached_map(made.table_id, _map);
  if made.map ->> 'key' is null and made.map ->> 'host_id' is null
    and (select t.partitions > 1 from gapless.topic t where t.topic_id = made.topic_id)
  then
    raise exception
      'topic "%" has several partitions: name a column that keeps the rows of % in order, --map key=COLUMN', _topic,
      made.table_name
      using errcode = 'GL400';
  end if;
  made.places := gapless.checked_places(_places);
  return made;
end
$$;
