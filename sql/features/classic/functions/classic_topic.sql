-- Return the topic of a group that is to be shown; without a name, its only one. Raises GL404: no such group; GL400: it
-- has several topics.
create or replace function gapless.classic_topic(_group_id text, _topic text) returns int
language plpgsql stable as $$
declare
  found_ids int[] := array(
    select g.topic_id from gapless.consumer_group g
    where g.group_id = _group_id and (_topic is null or g.topic_id = gapless.topic_id(_topic))
  );
begin
  if cardinality(found_ids) = 0 then
    raise exception 'there is no group "%"%: gapless groups lists them', _group_id,
      case when _topic is null then '' else format(' of topic "%s"', _topic) end
      using errcode = 'GL404';
  elsif cardinality(found_ids) > 1 then
    raise exception 'group "%" has several topics: say which, as GROUP/TOPIC', _group_id using errcode = 'GL400';
  end if;
  return found_ids[1];
end
$$;
