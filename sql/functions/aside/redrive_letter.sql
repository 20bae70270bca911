-- Ask for a dead unit to be handled again: the worker that owns its partition does so at once, in
-- offset order, exactly once, however often and by whomever it is asked. Returns what was found:
--   'asked'   it was dead, or waited for its next attempt: it is due now
--   'parked', 'redriven', 'discarded'   its state; nothing was done
--   'busy'    a worker or another person has it in hand at this moment; nothing was done
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
  set state = 'waiting', next_attempt_ts = now_ts,
    redriven_by = coalesce(redrive_letter.asked_by, session_user), redriven_ts = now_ts
  where d.group_id = redrive_letter.group_id and d.topic_id = wanted
    and d.partition_id = redrive_letter.partition_id
    and d.first_offset = redrive_letter.first_offset;
  perform gapless.reopen(redrive_letter.group_id, wanted, redrive_letter.partition_id);
  perform pg_notify('gapless_p_' || wanted || '_' || redrive_letter.partition_id, 'letter');
  return 'asked';
end
$$;

-- Give a unit up for good; who was parked behind it follows. It stays in the dead letter queue, with
-- the reason. Returns 'discarded'; or 'discarded already', 'redriven', 'busy', 'absent', and does nothing.
create or replace function gapless.discard_letter(
  group_id text, topic text, partition_id int, first_offset bigint, reason text,
  discarded_by text default null
)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  wanted int := gapless.topic_id(discard_letter.topic);
  found_state text;
begin
  if coalesce(trim(discard_letter.reason), '') = '' then
    raise exception 'a dead letter is discarded with a reason' using errcode = 'GL400';
  end if;
  -- Before any unit's row, see release_keys(): who has this lock waits for no row.
  perform gapless.lock_keys(discard_letter.group_id, wanted, discard_letter.partition_id);
  found_state := gapless.lock_letter(
    discard_letter.group_id, wanted, discard_letter.partition_id, discard_letter.first_offset
  );
  if found_state not in ('dead', 'waiting', 'parked') then
    return case when found_state = 'discarded' then 'discarded already' else found_state end;
  end if;
  update gapless.dead_letter d
  set state = 'discarded', next_attempt_ts = null, closed_ts = clock_timestamp(),
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

-- Lock a unit's row if nobody else has it; its state, or 'busy', or 'absent'.
create or replace function gapless.lock_letter(
  group_id text, topic_id int, partition_id int, first_offset bigint
)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  found_state text;
begin
  select d.state into found_state from gapless.dead_letter d
  where d.group_id = lock_letter.group_id and d.topic_id = lock_letter.topic_id
    and d.partition_id = lock_letter.partition_id and d.first_offset = lock_letter.first_offset
  for update skip locked;
  if found then
    return found_state;
  end if;
  perform from gapless.dead_letter d
  where d.group_id = lock_letter.group_id and d.topic_id = lock_letter.topic_id
    and d.partition_id = lock_letter.partition_id and d.first_offset = lock_letter.first_offset;
  return case when found then 'busy' else 'absent' end;
end
$$;

-- Forget all units of a partition from an offset on, whatever their state: the group is moved back to
-- it and will meet them in the log again. In the transaction that moves the group; returns how many.
create or replace function gapless.forget_letters(
  group_id text, topic_id int, partition_id int, from_offset bigint
)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  forgotten int;
begin
  perform gapless.lock_keys(
    forget_letters.group_id, forget_letters.topic_id, forget_letters.partition_id
  );
  delete from gapless.delivery y
  where y.group_id = forget_letters.group_id and y.topic_id = forget_letters.topic_id
    and y.partition_id = forget_letters.partition_id
    and y.first_offset >= forget_letters.from_offset;
  delete from gapless.dead_letter_key k
  where k.group_id = forget_letters.group_id and k.topic_id = forget_letters.topic_id
    and k.partition_id = forget_letters.partition_id
    and k.first_offset >= forget_letters.from_offset;
  delete from gapless.dead_letter_event e
  where e.group_id = forget_letters.group_id and e.topic_id = forget_letters.topic_id
    and e.partition_id = forget_letters.partition_id
    and e.first_offset >= forget_letters.from_offset;
  delete from gapless.dead_letter d
  where d.group_id = forget_letters.group_id and d.topic_id = forget_letters.topic_id
    and d.partition_id = forget_letters.partition_id
    and d.first_offset >= forget_letters.from_offset;
  get diagnostics forgotten = row_count;
  return forgotten;
end
$$;
