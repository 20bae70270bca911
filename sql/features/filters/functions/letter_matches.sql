-- Return the subscriptions that the events of a unit set aside are for: those that still exist, as they are now.
create or replace function gapless.letter_matches(
  _group_id text, _topic_id int, _partition_id int, _first_offset bigint
) returns table (c_offset bigint, subscription_id bigint, name text, params text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select e.c_offset, s.subscription_id, s.name, s.params::text
  from gapless.dead_letter d
  join gapless.dead_letter_event e using (group_id, topic_id, partition_id, first_offset)
  join gapless.subscription s on s.subscription_id = any (gapless.letter_subscriptions(e))
  where d.group_id = _group_id and d.topic_id = _topic_id and d.partition_id = _partition_id
    and d.first_offset = _first_offset and e.c_offset between d.first_offset and d.last_offset and e.is_kept
$$;
