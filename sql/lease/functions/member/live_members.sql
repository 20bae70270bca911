-- Return the members for which a plan is made, in a fixed order.
create or replace function gapless.live_members(_group_id text, _topic_id int) returns uuid[]
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  select coalesce(array_agg(m.member_id order by m.member_no), '{}')
  from gapless.member_group mg
  cross join lateral (    -- the newest version, as member_row()
    select x.member_id, x.member_no, x.state from gapless.member x
    where x.member_id between mg.member_id and mg.member_id
    order by x.member_id desc limit 1
  ) m
  where mg.group_id = _group_id and mg.topic_id = _topic_id
    and m.state = 'active'
$$;
