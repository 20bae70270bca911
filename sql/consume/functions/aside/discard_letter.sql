-- Discard a unit for good; units that are parked behind it follow. It stays in the dead letter queue, with the reason.
-- Returns 'discarded'; or 'discarded already', 'redriven', 'busy' or 'absent' when nothing was done.
create or replace function gapless.discard_letter(
  group_id text, topic text, partition_id int, first_offset bigint, reason text,
  discarded_by text default null
) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  wanted int := gapless.topic_id(discard_letter.topic);
  found_state text;
begin
  if coalesce(trim(discard_letter.reason), '') = '' then
    raise exception 'a dead letter is discarded with a reason' using errcode = 'GL400';
  end if;
  -- Before any unit's row, see release_keys(): a session that has this lock waits for no row.
  perform gapless.lock_keys(discard_letter.group_id, wanted, discard_letter.partition_id);
  found_state := gapless.lock_letter(
    discard_letter.group_id, wanted, discard_letter.partition_id, discard_letter.first_offset
  );
  if found_state not in ('dead', 'waiting', 'parked') then
    return case when found_state = 'discarded' then 'discarded already' else found_state end;
  end if;
  update gapless.dead_letter d
  set state = 'discarded', next_attempt_ts = null, epoch = null, token = null, closed_ts = clock_timestamp(),
    discarded_by = coalesce(discard_letter.discarded_by, session_user),
    discard_reason = discard_letter.reason
  where d.group_id = discard_letter.group_id and d.topic_id = wanted
    and d.partition_id = discard_letter.partition_id
    and d.first_offset = discard_letter.first_offset;
  perform gapless.release_keys(
    discard_letter.group_id, wanted, discard_letter.partition_id, discard_letter.first_offset
  );
  perform pg_notify('gapless_p_' || wanted || '_' || discard_letter.partition_id, 'letter');
  return 'discarded';
end
$$;
