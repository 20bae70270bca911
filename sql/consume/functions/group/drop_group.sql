-- Remove a group with its offsets, leases and dead letters. The log stays, so the group can be created again.
-- Returns the number of units in its dead letter queue. Raises GL423 while a member works for the group. Rows of
-- features are deleted with these rows: by foreign keys that cascade, or by the features' own triggers.
create or replace function gapless.drop_group(group_id text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  part record;
  members record;
  letters bigint;
begin
  perform from gapless.group_partitions(drop_group.group_id);
  for part in
    select l.lease_no from gapless.lease l
    where l.group_id = drop_group.group_id order by l.lease_no
  loop
    if not pg_try_advisory_xact_lock(7427003, part.lease_no) then
      raise exception 'a worker of group "%" is running: stop it first', drop_group.group_id
        using errcode = 'GL423';
    end if;
  end loop;
  -- Expired clients, where no member is left to notice them.
  if exists (
    select from gapless.member_group mg
    join gapless.member m using (member_id)
    where mg.group_id = drop_group.group_id and m.kind = 'client' and gapless.is_overdue(m.expires_at, m.ttl)
  ) then
    perform gapless.evict(gen_random_uuid());
  end if;
  select string_agg(distinct m.kind, ', ') as kinds, count(*) filter (where m.kind = 'client') as clients
  into members
  from gapless.member_group mg
  join gapless.member m using (member_id)
  where mg.group_id = drop_group.group_id;
  if members.kinds is not null then
    raise exception '%', format(
      case members.kinds
        when 'supervisor' then 'supervisors run for group "%s": stop them first'
        when 'client' then 'group "%s" has %s: let them leave first, or stop them and wait for their deadlines'
        else 'supervisors run for group "%s", and it has %s: stop them all first'
      end, drop_group.group_id, members.clients || case members.clients when 1 then ' client' else ' clients' end
    )
      using errcode = 'GL423';
  end if;
  delete from gapless.delivery v where v.group_id = drop_group.group_id;
  delete from gapless.dead_letter_key k where k.group_id = drop_group.group_id;
  delete from gapless.dead_letter_event e where e.group_id = drop_group.group_id;
  delete from gapless.dead_letter d where d.group_id = drop_group.group_id;
  get diagnostics letters = row_count;
  insert into gapless.audit (action, group_id, topic_id, partition_id, detail)
  select 'drop', c.group_id, c.topic_id, c.partition_id, jsonb_build_object('from', c.next_offset)
  from gapless.consumer_offsets c where c.group_id = drop_group.group_id;
  delete from gapless.consumer_offsets c where c.group_id = drop_group.group_id;
  delete from gapless.lease l where l.group_id = drop_group.group_id;
  delete from gapless.consumer_group g where g.group_id = drop_group.group_id;
  return letters;
end
$$;
