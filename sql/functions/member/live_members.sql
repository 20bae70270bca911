-- The members a plan is made for, in a fixed order.
create or replace function gapless.live_members(_group_id text, _topic_id int)
returns uuid[]
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(array_agg(m.member_id order by m.member_no), '{}')
  from gapless.member_group mg
  join gapless.member m using (member_id)
  where mg.group_id = _group_id and mg.topic_id = _topic_id
    and m.state = 'active'
$$;
