-- End a client's membership by hand: other members get its partitions at once, and its token is invalid from then on.
-- Events that it did not commit are delivered to them. False: there is no such client (any more). A program that joins
-- again becomes a member again, so stop it first.
--   select gapless.end_client('0b4f…');
-- For a client that stands in the way (lease/views/obstacles.sql); one whose deadline has passed goes by itself.
-- locks: the member's row
create or replace function gapless.end_client(member_id uuid) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  here record;
begin
  perform gapless.require_read_committed('end_client');
  select m.name, mg.group_id, mg.topic_id into here
  from gapless.member m
  join gapless.member_group mg on mg.member_id = m.member_id
  where m.member_id = end_client.member_id and m.kind = 'client'
  for update of m;
  if not found then
    return false;
  end if;
  delete from gapless.member m where m.member_id = end_client.member_id;
  insert into gapless.eviction as e (member_id, name, reason)
  values (end_client.member_id, here.name, format('ended by %s', session_user));
  insert into gapless.audit (action, group_id, topic_id, detail)
  values (
    'end-client', here.group_id, here.topic_id,
    jsonb_build_object('member', here.name, 'member_id', end_client.member_id)
  );
  perform gapless.sync(here.group_id, here.topic_id);
  return true;
end
$$;
