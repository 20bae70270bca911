-- NOTIFY a channel whenever events of a topic get their offsets, with the payload of the classic trigger, 'new_event'.
-- The sequencer's transaction does it: it costs publishers nothing, and a listener that is notified finds the events.
--   select gapless.notify_classic('orders');
-- channel: default event_channel; at most 63 bytes. False: it was announced before. Other topics are not announced.
-- Raises GL400, GL404.
-- lock: log_segment in share row exclusive mode, where it has no trigger yet: it waits for a run of the sequencer.
create or replace function gapless.notify_classic(topic text, channel text default 'event_channel') returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  wanted int := gapless.topic_id(notify_classic.topic);
  changed int;
begin
  if coalesce(octet_length(notify_classic.channel), 0) not between 1 and 63 then
    raise exception 'a channel has a name of 1 to 63 bytes, not "%"', notify_classic.channel using errcode = 'GL400';
  end if;
  perform gapless.lock_classic();
  if gapless.classic_trigger() is distinct from 'O' then
    drop trigger if exists classic_notify on gapless.log_segment;
    create trigger classic_notify after insert on gapless.log_segment referencing new table as grown
    for each statement execute function gapless.tell_classic();
  end if;
  insert into gapless.classic_channel as c (topic_id, channel)
  values (wanted, notify_classic.channel)
  on conflict (topic_id) do update set channel = excluded.channel where c.channel <> excluded.channel;
  get diagnostics changed = row_count;
  if changed > 0 then
    insert into gapless.audit (action, group_id, topic_id, detail)
    values ('classic-notify', '', wanted, jsonb_build_object('channel', notify_classic.channel));
  end if;
  return changed > 0;
end
$$;
