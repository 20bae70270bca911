-- Explain, in a sentence for people, why clients cannot serve a group; null: they can. Raises GL404 for an unknown
-- group.
create or replace function gapless.no_client_reason(_group_id text, _topic_id int) returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  grp gapless.consumer_group;
  here gapless.topic;
  apart text := (select r.reason from gapless.no_client_reasons r where r.group_id = _group_id limit 1);
begin
  select g.* into grp from gapless.consumer_group g
  where g.group_id = _group_id and g.topic_id = _topic_id;
  select t.* into here from gapless.topic t where t.topic_id = _topic_id;
  if grp.group_id is null then
    raise exception 'group "%" does not consume topic "%": make it with gapless.create_group(%, %)',
      _group_id, here.name, quote_nullable(_group_id), quote_nullable(here.name)
      using errcode = 'GL404';
  end if;
  return case
    when grp.mode <> 'ordered' then
      format('group "%s" is a queue: clients do not join it, they take its events (gapless.take)', _group_id)
    when grp.is_scratch then
      format('group "%s" is a replay, which only the one that made it handles', _group_id)
    when apart is not null then apart
    when here.direct then
      format('topic "%s" has direct messages, which only a supervisor (gapless run) tells apart', here.name)
    when exists (
      select from gapless.consumer_offsets c
      where c.group_id = _group_id and c.topic_id = _topic_id and c.next_offset < c.latest_upto
    ) then
      format('group "%s" begins with the newest event of each key, which only a supervisor (gapless run) reads: '
        'join when it has come to the log', _group_id)
    when exists (
      select from gapless.group_filter f where f.group_id = _group_id and f.topic_id = _topic_id
    ) or exists (
      select from gapless.consumer_offsets c
      where c.group_id = _group_id and c.topic_id = _topic_id and c.filter_no <> 0
    ) then
      format('group "%s" has a filter or subscriptions, which only a supervisor (gapless run) applies: '
        'use a group without, and pass unwanted events in the client', _group_id)
  end;
end
$$;
