-- Raise GL404 unless there is such a group for the topic, GL409 unless it is a queue.
create or replace function gapless.require_queue(_group_id text, _topic_id int) returns void
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  found_mode text;
  topic_name text;
begin
  select g.mode into found_mode from gapless.consumer_group g
  where g.group_id = _group_id and g.topic_id = _topic_id;
  if found_mode = 'queue' then
    return;
  end if;
  select t.name into topic_name from gapless.topic t where t.topic_id = _topic_id;
  if found_mode is null then
    raise exception 'group "%" does not consume topic "%": make it with gapless.create_group(%, %, mode => %)',
      _group_id, topic_name, quote_nullable(_group_id), quote_nullable(topic_name), quote_literal('queue')
      using errcode = 'GL404';
  end if;
  raise exception 'group "%" is an ordered one, with a worker for each partition: events are taken of queue groups',
    _group_id
    using errcode = 'GL409';
end
$$;
