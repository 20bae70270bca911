-- Drop the groups whose time is over (set_expiry.sql), with their dead letters: the housekeeper calls it now and then.
-- Returns the dropped groups, with the number of units that they had set aside. Each is audited (action expire, then
-- drop). A group is in use while it has a member, is paused, or has other traces (group_traces.sql) than at the look
-- before. Its idle time grows by the counted part of the time since then (counted_time.sql): at most gap_s seconds.
-- locks: the rows of group_expiry, by try; then as drop_group()
create or replace function gapless.expire_groups(_gap_s double precision)
returns table (group_id text, set_aside bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  each gapless.group_expiry;
  now_ts timestamptz := clock_timestamp();
  traces text;
begin
  for each in
    select e.* from gapless.group_expiry e order by e.group_id for update skip locked
  loop
    if not exists (select from gapless.consumer_group g where g.group_id = each.group_id) then
      delete from gapless.group_expiry e where e.group_id = each.group_id;
      continue;
    end if;
    traces := gapless.group_traces(each.group_id);
    if each.seen is distinct from traces
      or exists (select from gapless.member_group m where m.group_id = each.group_id)
      or exists (select from gapless.group_pause p where p.group_id = each.group_id)
    then
      each.idle := '0';
    else
      each.idle := each.idle + gapless.counted_time(each.looked_ts, now_ts, _gap_s);
    end if;
    update gapless.group_expiry e set idle = each.idle, looked_ts = now_ts, seen = traces
    where e.group_id = each.group_id;
    continue when each.idle < each.expires_after;
    begin
      insert into gapless.audit (action, group_id, topic_id, detail)
      select 'expire', g.group_id, g.topic_id,
        jsonb_build_object('expires_after', each.expires_after, 'idle', each.idle)
      from gapless.consumer_group g where g.group_id = each.group_id;
      set_aside := gapless.drop_group(each.group_id);
      group_id := each.group_id;
      delete from gapless.group_expiry e where e.group_id = each.group_id;
      return next;
    exception when sqlstate 'GL423' then    -- a member has just joined it
      update gapless.group_expiry e set idle = '0' where e.group_id = each.group_id;
    end;
  end loop;
end
$$;
