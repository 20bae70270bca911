-- Ask for a dead unit to be handled again: the worker that owns its partition does so at once, in
-- offset order, exactly once, however often and by whomever it is asked. Returns what was found:
--   'asked'   it was dead, or waited for its next attempt: it is due now
--   'parked', 'redriven', 'discarded'   its state; nothing was done
--   'busy'    a worker, another person, or whoever has a receipt of it has it in hand at this moment; nothing was done
--   'absent'  there is no such unit
-- Never waits for anybody but, for a partition that was retired, for a plan that is being made.
create or replace function gapless.redrive_letter(
  group_id text, topic text, partition_id int, first_offset bigint, asked_by text default null
)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  wanted int := gapless.topic_id(redrive_letter.topic);
  now_ts timestamptz := clock_timestamp();    -- once: who asked last is known by two columns being equal
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
