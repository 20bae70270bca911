-- Write a pause of a queue group, or its end, beside the floor: a claim looks at nothing else.
-- locks: the consumer_offsets rows, as sweep()
create or replace function gapless.tell_floor() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  pause gapless.group_pause := coalesce(new, old);
  part record;
begin
  for part in
    select l.lease_no, c.partition_id, c.stopped_at is not null as is_stopped from gapless.consumer_offsets c
    join gapless.lease l using (group_id, topic_id, partition_id)
    join gapless.consumer_group g using (group_id, topic_id)
    where c.group_id = pause.group_id and c.topic_id = pause.topic_id and g.mode = 'queue'
      and pause.partition_id in (-1, c.partition_id)
    order by c.partition_id
    for update of c
  loop
    insert into gapless.queue_floor (lease_no, version, next_offset, block, is_paused, place)
    select part.lease_no, f.version + 1, f.next_offset, f.block,
      gapless.is_paused(pause.group_id, pause.topic_id, part.partition_id) or part.is_stopped, f.place
    from gapless.floor_of(part.lease_no) f
    where f.version is not null;
  end loop;
  return null;
end
$$;

do $$
begin
  if not exists (
    select from pg_trigger t
    where t.tgrelid = 'gapless.group_pause'::regclass and t.tgname = 'tell_floor'
  ) then
    create trigger tell_floor
      after insert or delete on gapless.group_pause
      for each row execute function gapless.tell_floor();
  end if;
end
$$;
