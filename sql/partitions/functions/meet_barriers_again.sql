-- Let a group that is moved back meet the barriers again, and give retired partitions their leases back. MUST reset
-- both: the admissions say nothing about partitions that were moved back as well.
-- An AFTER trigger, for claims: a BEFORE trigger locks the row first, whatever its WHEN says.
create or replace function gapless.meet_barriers_again() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update gapless.consumer_offsets c set layout = 0, passed = 0
  where c.group_id = new.group_id and c.topic_id = new.topic_id
    and c.partition_id = new.partition_id and c.layout + c.passed > 0;
  perform gapless.reopen(new.group_id, new.topic_id, new.partition_id);
  return null;
end
$$;

do $$
begin
  if not exists (
    select from pg_trigger t
    where t.tgrelid = 'gapless.consumer_offsets'::regclass and t.tgname = 'meet_barriers_again'
  ) then
    create trigger meet_barriers_again
      after update of next_offset on gapless.consumer_offsets
      for each row when (new.next_offset < old.next_offset)
      execute function gapless.meet_barriers_again();
  end if;
end
$$;
