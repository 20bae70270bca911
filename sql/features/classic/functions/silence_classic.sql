-- Stop announcing a topic on the classic channel; the last topic's end drops the trigger, too. False: it was not
-- announced.
--   select gapless.silence_classic('orders');
-- Raises GL404. lock: log_segment in access exclusive mode, with the last topic: it waits for a run of the sequencer.
create or replace function gapless.silence_classic(topic text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  wanted int := gapless.topic_id(silence_classic.topic);
begin
  perform gapless.lock_classic();
  delete from gapless.classic_channel c where c.topic_id = wanted;
  if not found then
    return false;
  end if;
  if not exists (select from gapless.classic_channel) then
    drop trigger if exists classic_notify on gapless.log_segment;
  end if;
  insert into gapless.audit (action, group_id, topic_id, detail) values ('classic-silence', '', wanted, '{}');
  return true;
end
$$;
