-- Tell whether a group, ordered or queue, has handled or set aside an event of a topic, or a member works for it. This
-- is certain only while no worker has one of the partitions: it takes their locks, by try.
create or replace function gapless.has_begun(_group_id text, _topic_id int) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  part record;
begin
  for part in
    select l.lease_no, l.epoch from gapless.lease l
    where l.group_id = _group_id and l.topic_id = _topic_id
    order by l.lease_no
  loop
    if part.epoch > 0 or not pg_try_advisory_xact_lock(7427003, part.lease_no) then
      return true;
    end if;
  end loop;
  return exists (
    select from gapless.member_group m where m.group_id = _group_id and m.topic_id = _topic_id
  ) or exists (
    select from gapless.dead_letter d where d.group_id = _group_id and d.topic_id = _topic_id
  ) or exists (
    select from gapless.lease l
    where l.group_id = _group_id and l.topic_id = _topic_id and (
      exists (select from gapless.queue_range r where r.lease_no = l.lease_no)
      or exists (select from gapless.queue_floor f where f.lease_no = l.lease_no and f.version > 1)
    )
  );
end
$$;
