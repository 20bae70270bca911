-- Renew a client's deadline while it is at work. Returns the partitions that it holds, and why one of them stands still
-- (null: none does). Partitions that are planned for another member, with no unit in hand, are released.
-- Raises GL006 when the deadline has passed.
create or replace function gapless.heartbeat(
  token text, out expires_at timestamptz, out partitions int[], out problem text, out topic text
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  me record;
begin
  select c.* into me from gapless.client_of(heartbeat.token) c;
  expires_at := gapless.renew_client(me.member_id, me.group_id, me.topic_id, me.expires_at, me.ttl);
  perform gapless.take_leases(me.member_id, me.group_id, me.topic_id, '{}');
  topic := (select t.name from gapless.topic t where t.topic_id = me.topic_id);
  select
    coalesce(array_agg(l.partition_id order by l.partition_id) filter (where l.owner = me.member_id), '{}'),
    string_agg(format('partition %s: %s', l.partition_id, l.error), '; ' order by l.partition_id)
      filter (where l.error is not null)
  into partitions, problem
  from gapless.lease l
  where l.group_id = me.group_id and l.topic_id = me.topic_id and (l.owner = me.member_id or l.target = me.member_id);
end
$$;
