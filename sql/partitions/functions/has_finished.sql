-- Tell, in one look without a lock, whether there is a lease to retire.
create or replace function gapless.has_finished(_group_id text, _topic_id int) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select exists (
    select from gapless.topic t
    join gapless.lease l using (topic_id)
    where t.topic_id = _topic_id and t.partitions_ever > t.partitions
      and l.group_id = _group_id and l.partition_id >= t.partitions
      and gapless.is_finished(l.group_id, l.topic_id, l.partition_id)
      and not gapless.owes_letters(l.group_id, l.topic_id, l.partition_id)
  )
$$;
