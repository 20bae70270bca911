-- Return the place of the newest version of a member's row, whatever a held snapshot keeps of older ones: as
-- offset_row().
create or replace function gapless.member_row(_member_id uuid) returns tid
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  select m.ctid from gapless.member m
  where m.member_id between _member_id and _member_id
  order by m.member_id desc limit 1
$$;
