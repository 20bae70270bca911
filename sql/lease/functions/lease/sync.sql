-- Bring the plan of a group (for one topic) up to date with its members. Any member may call it. Returns true when
-- leases changed; null when another session is planning right now.
-- locks: the consumer_group row (skipped when busy; not for sessions that only share its key, such as a recording of
--   the history: nobody else would plan), then guard_planning, so that two groups that are planned at once do not fill
--   one member's capacity twice, then lease rows. Waits for no worker.
create or replace function gapless.sync(_group_id text, _topic_id int) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  grp gapless.consumer_group;
  live uuid[];
  moved int;
  retired int;
begin
  select * into grp from gapless.consumer_group g
  where g.group_id = _group_id and g.topic_id = _topic_id
  for no key update skip locked;
  if not found then
    return null;
  end if;
  live := gapless.live_members(_group_id, _topic_id);
  retired := gapless.retire(_group_id, _topic_id);
  -- A partition of a queue group has no owner: there is nothing to plan.
  if retired = 0 and live = grp.planned_for and (grp.mode = 'queue' or cardinality(live) = 0 or not exists (
    select from gapless.lease l
    where l.group_id = _group_id and l.topic_id = _topic_id and l.target is null
  )) then
    return false;
  end if;

  lock table gapless.guard_planning in exclusive mode;
  moved := case when grp.mode = 'queue' then 0 else gapless.plan(_group_id, _topic_id, live, grp.generation + 1) end;
  update gapless.consumer_group g
  set planned_for = live, generation = g.generation + 1
  where g.group_id = _group_id and g.topic_id = _topic_id
    and (g.planned_for <> live or moved > 0);
  if moved + retired > 0 then
    perform pg_notify('gapless_g_' || grp.group_no, 'plan');
  end if;
  return moved + retired > 0;
end
$$;
