-- Let a group be dropped, with its dead letters, after so long without a member and a claim (expire_groups.sql); null:
-- never, which is the default. Its time begins anew. Returns whether that is a change.
-- Raises GL404 for an unknown group, GL400 for a time below a minute or above ten years, and for the group of a
-- pipeline.
create or replace function gapless.set_expiry(group_id text, expires_after interval) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  seconds double precision := extract(epoch from set_expiry.expires_after);
  before interval;
begin
  perform from gapless.group_partitions(set_expiry.group_id);
  perform gapless.check_expiry('a group', set_expiry.expires_after);
  if seconds is not null and exists (
    select from gapless.pipeline p where 'pipeline.' || p.name = set_expiry.group_id
  ) then
    raise exception 'group "%" is of a pipeline, which reads without a member: gapless pipeline remove ends it',
      set_expiry.group_id
      using errcode = 'GL400';
  end if;
  delete from gapless.group_expiry e where e.group_id = set_expiry.group_id
  returning e.expires_after into before;
  if seconds is not null then
    insert into gapless.group_expiry (group_id, expires_after)
    values (set_expiry.group_id, set_expiry.expires_after);
  end if;
  if before is not distinct from set_expiry.expires_after then
    return false;
  end if;
  insert into gapless.audit (action, group_id, topic_id, detail)
  select 'expiry', g.group_id, g.topic_id, jsonb_build_object('expires_after', set_expiry.expires_after)
  from gapless.consumer_group g where g.group_id = set_expiry.group_id;
  return true;
end
$$;
