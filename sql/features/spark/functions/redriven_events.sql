-- Return the events of a pipeline's dead letters that a person has asked for again, in the order of their offsets, at
-- most _events_max. They come from the dead letters: the log may have dropped them, or a person corrected them.
-- index: dead_letter_open
create or replace function gapless.redriven_events(_name text, _topics text[], _events_max int) returns table (
  topic text, topic_id int, due_ts timestamptz, event gapless.dead_letter_event
)
language sql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
  select t.name, d.topic_id, d.next_attempt_ts, e
  from gapless.dead_letter d
  join gapless.topic t using (topic_id)
  join gapless.dead_letter_event e
    on e.group_id = d.group_id and e.topic_id = d.topic_id and e.partition_id = d.partition_id
    and e.c_offset = d.first_offset
  where d.group_id = 'pipeline.' || _name and d.state = 'waiting' and t.name = any (_topics)
  order by d.topic_id, d.partition_id, d.first_offset
  limit _events_max
$$;
