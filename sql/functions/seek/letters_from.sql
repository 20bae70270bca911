-- How many letters of a partition stand at this offset or later.
create or replace function gapless.letters_from(
  group_id text, topic_id int, partition_id int, first_offset bigint
)
returns bigint
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select count(*) from gapless.dead_letter_queue d
  where d.group_id = letters_from.group_id and d.topic_id = letters_from.topic_id
    and d.partition_id = letters_from.partition_id and d.c_offset >= letters_from.first_offset
$$;
