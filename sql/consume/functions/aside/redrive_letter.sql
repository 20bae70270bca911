-- Ask for a dead unit to be handled again. The worker that owns its partition handles it at once, in offset order, and
-- exactly once, even if several people ask, or one asks several times. Returns one of:
--   'asked'   the unit was dead, or waited for its next attempt: it is due now
--   'parked', 'redriven', 'discarded'   the state of the unit; nothing was done
--   'busy'    a worker, another person or the holder of a receipt is at work on it at this moment; nothing was done
--   'absent'  there is no such unit
-- Waits for no other session, except, for a retired partition, for a plan that is being made.
create or replace function gapless.redrive_letter(
  group_id text, topic text, partition_id int, first_offset bigint, asked_by text default null
) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  wanted int := gapless.topic_id(redrive_letter.topic);
  now_ts timestamptz := clock_timestamp();    -- once: the newest request is known by two equal columns
  found_state text;
begin
  found_state := gapless.lock_letter(
    redrive_letter.group_id, wanted, redrive_letter.partition_id, redrive_letter.first_offset
  );
  if found_state not in ('dead', 'waiting') then
    return found_state;
  end if;
  update gapless.dead_letter d
  set state = 'waiting', next_attempt_ts = now_ts, token = null,
    redriven_by = coalesce(redrive_letter.asked_by, session_user), redriven_ts = now_ts
  where d.group_id = redrive_letter.group_id and d.topic_id = wanted
    and d.partition_id = redrive_letter.partition_id
    and d.first_offset = redrive_letter.first_offset;
  perform gapless.reopen(redrive_letter.group_id, wanted, redrive_letter.partition_id);
  perform pg_notify('gapless_p_' || wanted || '_' || redrive_letter.partition_id, 'letter');
  return 'asked';
end
$$;
