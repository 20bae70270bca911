-- Leave the group as a client; other members get its partitions at once. Events that it did not commit are delivered to
-- them. Returns false when the client was no member (any more).
-- locks: the member's row, then of each partition the consumer_offsets row and the lease
create or replace function gapless.leave(token text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  me record;
begin
  begin
    select c.* into me from gapless.client_of("leave".token) c;
  exception
    when sqlstate 'GL006' then
      return false;
  end;
  perform gapless.bound_idle(interval '5 s');
  perform gapless.release_client_lease(l.group_id, l.topic_id, l.partition_id, l.epoch, l.token)
  from gapless.lease l
  where l.group_id = me.group_id and l.topic_id = me.topic_id and l.owner = me.member_id;
  delete from gapless.member m where m.member_id = me.member_id;
  perform gapless.sync(me.group_id, me.topic_id);
  return true;
end
$$;
