-- Tell whether this partition is paused, by any holder.
create or replace function gapless.is_paused(_group_id text, _topic_id int, _partition_id int) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select exists (
    select from gapless.group_pause p
    where p.group_id = _group_id and p.topic_id = _topic_id
      and p.partition_id in (-1, _partition_id)
  )
$$;
