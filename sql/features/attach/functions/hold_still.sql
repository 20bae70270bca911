-- Keep a group from moving until the transaction ends, and check that it has nothing half done. Raises GL423: a worker
-- owns a partition; GL409: units of it wait for another attempt.
-- lock: the advisory lock of each partition (7427003), then its consumer_offsets rows.
create or replace function gapless.hold_still(_group_id text, _topic_id int) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  part record;
  waiting bigint;
begin
  for part in
    select l.lease_no, l.partition_id from gapless.lease l
    where l.group_id = _group_id and l.topic_id = _topic_id
    order by l.lease_no
  loop
    if not pg_try_advisory_xact_lock(7427003, part.lease_no) then
      raise exception 'a worker still owns partition % of "%"', part.partition_id, _group_id using errcode = 'GL423';
    end if;
  end loop;
  perform from gapless.consumer_offsets c
  where c.group_id = _group_id and c.topic_id = _topic_id
  order by c.partition_id
  for update;
  select count(*) into waiting from gapless.dead_letter d
  where d.group_id = _group_id and d.topic_id = _topic_id and d.state in ('waiting', 'parked');
  if waiting > 0 then
    raise exception '% of "%" % for another attempt: let that end first, or discard them (gapless dlq)',
      case waiting when 1 then '1 unit' else waiting || ' units' end, _group_id,
      case waiting when 1 then 'waits' else 'wait' end
      using errcode = 'GL409';
  end if;
end
$$;
