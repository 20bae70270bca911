-- The headers of a direct message: those given, and the group that it is for. Raises GL404 unless the topic has such a
-- group, GL409 unless it takes direct messages (set_direct.sql), 22023 for headers that are no object.
-- A plain INSERT sets the header itself, and nobody looks whether there is such a group: then all pass it.
create or replace function gapless.direct_headers(_topic text, _headers jsonb, _to_group text)
returns jsonb
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  here gapless.topic;
begin
  select t.* into strict here from gapless.topic t where t.topic_id = gapless.topic_id(_topic);
  if jsonb_typeof(_headers) <> 'object' then
    raise exception 'headers are a JSON object, not %', left(_headers::text, 100)
      using errcode = 'invalid_parameter_value';
  end if;
  if not here.direct then
    raise exception 'topic "%" takes no direct messages: gapless topics alter % --direct', here.name, here.name
      using errcode = 'GL409';
  end if;
  if not exists (
    select from gapless.consumer_group g
    where g.group_id = _to_group and g.topic_id = here.topic_id and not g.is_scratch
  ) then
    raise exception 'topic "%" has no group "%": nobody would handle a message to it', here.name, _to_group
      using errcode = 'GL404';
  end if;
  return coalesce(_headers, '{}') || jsonb_build_object('gapless-to-group', _to_group);
end
$$;
