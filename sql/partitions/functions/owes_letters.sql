-- Tell whether a unit that was set aside waits for the worker of this partition. Dead units wait for a person.
create or replace function gapless.owes_letters(_group_id text, _topic_id int, _partition_id int) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select exists (
    select from gapless.dead_letter d
    where d.group_id = _group_id and d.topic_id = _topic_id
      and d.partition_id = _partition_id and d.state in ('waiting', 'parked')
  )
$$;
