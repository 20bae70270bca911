-- Create a topic; returns its id. An existing topic with the same number of partitions is left as it is; another number
-- is refused, because keys would move between partitions.
-- Id 1 is that of the topic outbox, created or not: an INSERT that names no topic_id means it. All other ids come from
-- the identity, never from data; an id that has events already is left to adopt_topic().
create or replace function gapless.create_topic(name text, partitions int) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  existing gapless.topic;
begin
  perform gapless.check_topic(create_topic.name, create_topic.partitions);
  lock table gapless.guard_topics in exclusive mode;
  select * into existing from gapless.topic t where t.name = create_topic.name;
  if found then
    if existing.partitions <> create_topic.partitions then
      raise exception 'topic "%" has % partitions in the database, not %: %',
        create_topic.name, existing.partitions, create_topic.partitions,
        format(
          'gapless topics alter %s --partitions %s gives it that number',
          create_topic.name, create_topic.partitions
        )
        using errcode = 'GL409';
    end if;
    return existing.topic_id;
  end if;
  existing.topic_id := 1;
  while existing.topic_id = 1 and create_topic.name <> 'outbox'
    or exists (select from gapless.topic t where t.topic_id = existing.topic_id)
    or exists (
      select from gapless.unrouted u where u.topic_id = existing.topic_id and u.topic_id <> 1
    )
  loop
    existing.topic_id := nextval(pg_get_serial_sequence('gapless.topic', 'topic_id'));
  end loop;
  insert into gapless.topic (topic_id, name, partitions)
  values (existing.topic_id, create_topic.name, create_topic.partitions);
  return existing.topic_id;
end
$$;

-- The same; a new topic keeps its events for keep_s seconds (null: forever), and remembers dedupe keys for window_s
-- (null: the default).
create or replace function gapless.create_topic(
  name text, partitions int, keep_s double precision, window_s double precision default null
) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  created_id int;
begin
  lock table gapless.guard_topics in exclusive mode;
  if exists (select from gapless.topic t where t.name = create_topic.name) then
    return gapless.create_topic(create_topic.name, create_topic.partitions);
  end if;
  created_id := gapless.create_topic(create_topic.name, create_topic.partitions);
  update gapless.topic t set retention = make_interval(secs => create_topic.keep_s)
  where t.topic_id = created_id;
  if create_topic.window_s is not null then
    perform gapless.set_dedupe_window(create_topic.name, create_topic.window_s);
  end if;
  return created_id;
end
$$;
