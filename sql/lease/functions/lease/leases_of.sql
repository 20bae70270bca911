-- Return the partitions of its groups that a member has or is to have, in a fixed order. With the owner's rights: a
-- member that sees none of them (row security) would have no workers, and look again only when a plan changes.
create or replace function gapless.leases_of(_member_id uuid) returns table (
  group_id text, topic text, topic_id int, partition_id int, lease_no int, group_no int, target uuid, owner uuid,
  is_paused boolean
)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select l.group_id, t.name, l.topic_id, l.partition_id, l.lease_no, g.group_no, l.target, l.owner,
    gapless.is_paused(l.group_id, l.topic_id, l.partition_id)
  from gapless.member_group m
  join gapless.consumer_group g using (group_id, topic_id)
  join gapless.lease l using (group_id, topic_id)
  join gapless.topic t using (topic_id)
  where m.member_id = _member_id and (l.target = m.member_id or l.owner = m.member_id)
  order by l.group_id, l.topic_id, l.partition_id
$$;
