-- Return the id of a topic. Raises GL404 for an unknown one, GL409 when it is not compacted.
create or replace function gapless.require_compacted(_topic text) returns int
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  wanted int := gapless.topic_id(_topic);
begin
  if not (select t.compacted from gapless.topic t where t.topic_id = wanted) then
    raise exception 'topic "%" is not compacted: gapless topics alter % --compact', _topic, _topic
      using errcode = 'GL409';
  end if;
  return wanted;
end
$$;
