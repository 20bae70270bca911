-- Let a running supervisor join one more group. False: there is no such group any more, or no such member.
create or replace function gapless.enter_group(_member_id uuid, _group_id text, _topic_id int) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into gapless.member_group (member_id, group_id, topic_id)
  select m.member_id, g.group_id, g.topic_id
  from gapless.member m, gapless.consumer_group g
  where m.member_id = _member_id and g.group_id = _group_id and g.topic_id = _topic_id
  on conflict do nothing;
  return found;
end
$$;
