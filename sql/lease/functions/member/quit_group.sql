-- Let a supervisor leave one of its groups, and stay in the others: its planned partitions go to its peers.
create or replace function gapless.quit_group(_member_id uuid, _group_id text, _topic_id int) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  delete from gapless.member_group m
  where m.member_id = _member_id and m.group_id = _group_id and m.topic_id = _topic_id
$$;
