-- Notify the members of a group, in all its topics, to look at their leases again.
create or replace function gapless.tell_group(_group_id text, _word text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pg_notify('gapless_g_' || g.group_no, _word)
  from gapless.consumer_group g
  where g.group_id = _group_id;
end
$$;
