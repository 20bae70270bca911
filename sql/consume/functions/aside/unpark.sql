-- Let those of these units follow that are parked and have no earlier unit; returns their number.
create or replace function gapless.unpark(_group_id text, _topic_id int, _partition_id int, _first_offsets bigint[])
returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  following int;
begin
  update gapless.dead_letter d
  set state = 'waiting', next_attempt_ts = clock_timestamp()
  where d.group_id = _group_id and d.topic_id = _topic_id
    and d.partition_id = _partition_id and d.first_offset = any (_first_offsets)
    and coalesce(d.state, '') = 'parked'    -- by the primary key, as in claim_letter()
    and not exists (
      select from gapless.dead_letter_key mine
      where mine.group_id = d.group_id and mine.topic_id = d.topic_id
        and mine.partition_id = d.partition_id and mine.first_offset = d.first_offset
        and gapless.is_behind(
          d.group_id, d.topic_id, d.partition_id, d.first_offset, mine.key_digest
        )
    );
  get diagnostics following = row_count;
  return following;
end
$$;
