-- Create a scratch group for a transaction that is to be rolled back: a dry run. The ranges are those that
-- create_replay() found; start inclusive, stop exclusive.
-- MUST NOT lock the topic, as create_replay() does: a change of its partitions would wait for the dry run, and the
-- sequencer for the change.
create or replace function gapless.create_trial(
  _group_id text, _topic text, _partitions int[], _starts bigint[], _stops bigint[]
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  wanted int := gapless.topic_id(_topic);
begin
  insert into gapless.consumer_group (group_id, topic_id, is_scratch)
  values (_group_id, wanted, true);
  insert into gapless.consumer_offsets
    (group_id, topic_id, partition_id, next_offset, start_offset, stop_offset)
  select _group_id, wanted, u.partition_id, u.start, u.start, u.stop
  from unnest(_partitions, _starts, _stops)
    as u (partition_id, start, stop);
end
$$;
