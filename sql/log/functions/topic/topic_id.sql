-- Return the id of a topic by its name, for INSERT and COPY; raises an error that names an unknown topic.
create or replace function gapless.topic_id(name text) returns int
language plpgsql stable as $$
declare
  found_id int;
begin
  if coalesce(topic_id.name, '') = '' then
    raise exception 'no topic is named: gapless topics list shows which there are' using errcode = 'GL404';
  end if;
  select t.topic_id into found_id from gapless.topic t where t.name = topic_id.name;
  if not found then
    raise exception 'topic "%" does not exist: create it with gapless topics create %', name, name
      using errcode = 'GL404';
  end if;
  return found_id;
end
$$;
