-- The trigger of log_segment while a topic is announced on a classic channel: one NOTIFY for each channel and run.
-- Created by notify_classic(), dropped by silence_classic(): it exists only while a topic is announced.
-- security definer: the sequencer's role needs no right on classic_channel.
create or replace function gapless.tell_classic() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pg_notify(c.channel, 'new_event')
  from (
    select distinct k.channel from gapless.classic_channel k
    where k.topic_id in (select g.topic_id from grown g)
  ) c;
  return null;
end
$$;
