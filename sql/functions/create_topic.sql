-- Create a topic; returns its id. One that exists with the same number of partitions is left as it
-- is; with another number it is refused, since the keys would move between partitions.
-- Id 1 is that of the topic outbox, made or not: it is what an INSERT means that names no topic_id.
create or replace function gapless.create_topic(name text, partitions int)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  existing gapless.topic;
begin
  perform pg_advisory_xact_lock(7427001, 6);
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
  -- An id may have been taken by an INSERT that named it (see sequence_events).
  insert into gapless.topic (topic_id, name, partitions)
  select
    case
      when create_topic.name = 'outbox' and coalesce(min(t.topic_id), 0) <> 1 then 1
      else greatest(max(t.topic_id), 1) + 1
    end,
    create_topic.name,
    create_topic.partitions
  from gapless.topic t
  returning topic_id into existing.topic_id;
  return existing.topic_id;
end
$$;

-- Likewise; if it is new, it keeps its events for keep_s seconds (null: for ever), and remembers dedupe keys
-- for window_s (null: the default).
create or replace function gapless.create_topic(
  name text, partitions int, keep_s double precision, window_s double precision default null
)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  created_id int;
begin
  perform pg_advisory_xact_lock(7427001, 6);
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

-- Events of id 1 whose topic nobody made are the outbox's: it is found by its name, whoever adopts it.
create or replace function gapless.name_outbox()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if not exists (select from gapless.topic t where t.name = 'outbox') then
    new.name := 'outbox';
  end if;
  return new;
end
$$;

do $$
begin
  if not exists (
    select from pg_trigger t
    where t.tgrelid = 'gapless.topic'::regclass and t.tgname = 'name_outbox'
  ) then
    create trigger name_outbox
      before insert on gapless.topic
      for each row when (new.topic_id = 1 and new.name = 'topic-1')
      execute function gapless.name_outbox();
    -- What was adopted before there was this trigger.
    update gapless.topic t set name = 'outbox'
    where t.topic_id = 1 and t.name = 'topic-1'
      and not exists (select from gapless.topic o where o.name = 'outbox');
  end if;
end
$$;
