-- Is this partition paused, by whomever?
create or replace function gapless.is_paused(group_id text, topic_id int, partition_id int)
returns boolean
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select from gapless.group_pause p
    where p.group_id = is_paused.group_id and p.topic_id = is_paused.topic_id
      and p.partition_id in (-1, is_paused.partition_id)
  )
$$;
