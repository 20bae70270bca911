-- Handle a unit that was set aside again: the worker that owns the partition does it between batches,
-- under the same fence, and what the handler writes commits with the unit's new state (I6).
--   record_try()    in a transaction of its own: so a unit that kills its worker is known (I8)
--   claim_letter()  locks the fence and the unit, and says it is handled
--   …the handler…
--   finish_letter() then COMMIT; or ROLLBACK, and letter_failed() in a transaction of its own
-- plan: by the primary key. enable_seqscan is off, for a plan made while the tables were small may be
--   kept; coalesce() hides the state, or an index of all that waits may look as good.

-- Write down that a unit is about to be handled. Returns how often that was begun without an end,
-- this time included; 0 when the unit is not due (any more), or paused; null when fenced.
-- locks: the consumer_offsets row, then the unit's
create or replace function gapless.record_try(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid, first_offset bigint
)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
  tries int;
begin
  if not gapless.lock_fence(
    record_try.group_id, record_try.topic_id, record_try.partition_id, record_try.epoch,
    record_try.token
  ) then
    return null;
  end if;
  update gapless.dead_letter d set crashes = d.crashes + 1
  where d.group_id = record_try.group_id and d.topic_id = record_try.topic_id
    and d.partition_id = record_try.partition_id and d.first_offset = record_try.first_offset
    and coalesce(d.state, '') = 'waiting' and d.next_attempt_ts <= clock_timestamp()
    and not gapless.is_paused(d.group_id, d.topic_id, d.partition_id)
  returning d.crashes into tries;
  return coalesce(tries, 0);
end
$$;

-- Take back record_try(): the call ended, but neither well nor badly (the environment's error).
create or replace function gapless.forget_try(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid, first_offset bigint
)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
  update gapless.dead_letter d set crashes = d.crashes - 1
  where gapless.lock_fence(
      forget_try.group_id, forget_try.topic_id, forget_try.partition_id, forget_try.epoch,
      forget_try.token
    )
    and d.group_id = forget_try.group_id and d.topic_id = forget_try.topic_id
    and d.partition_id = forget_try.partition_id and d.first_offset = forget_try.first_offset
    and coalesce(d.state, '') = 'waiting' and d.crashes > 0
$$;

-- Claim a unit that is due, in the caller's open transaction: from now on it counts as handled, and
-- commits as that, or not, with whatever the handler writes (I6).
--   outcome 'claimed'  its events are in dead_letter_event; claim_xid goes back to finish_letter()
--   outcome 'gone'     it is not due (any more)
--   outcome 'fenced'   (epoch, token) is no longer the partition's owner: stop (I7)
-- attempts: how many have failed before; was_dead: a person asked for this one; timeline: of its key.
-- locks: the consumer_offsets row and the unit's until the transaction ends
create or replace function gapless.claim_letter(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid, first_offset bigint
)
returns table (
  outcome text, claim_xid text, last_offset bigint, attempts int, was_dead boolean, parks boolean,
  timeline int
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
  if not gapless.lock_fence(
    claim_letter.group_id, claim_letter.topic_id, claim_letter.partition_id, claim_letter.epoch,
    claim_letter.token
  ) then
    return query select 'fenced', null, null::bigint, null::int, null::boolean, null::boolean,
      null::int;
    return;
  end if;
  -- Wait for a person who has it in hand: a later one must not go before it, and record_try() waits as
  -- well. Its own statement: as a join it may lock one after the other.
  perform from gapless.dead_letter w
  where w.group_id = claim_letter.group_id and w.topic_id = claim_letter.topic_id
    and w.partition_id = claim_letter.partition_id and w.first_offset = claim_letter.first_offset
    and coalesce(w.state, '') = 'waiting' and w.next_attempt_ts <= clock_timestamp()
  for update;
  if found then
    perform set_config('gapless.chain', 'open', true);    -- see cause.sql
    return query
    update gapless.dead_letter d
    set state = 'redriven', next_attempt_ts = null, closed_ts = clock_timestamp(), crashes = 0
    where d.group_id = claim_letter.group_id and d.topic_id = claim_letter.topic_id
      and d.partition_id = claim_letter.partition_id and d.first_offset = claim_letter.first_offset
    returning 'claimed', pg_current_xact_id()::text, d.last_offset, d.attempts,
      d.died_ts is not null, d.parks, d.timeline;
  else
    return query select 'gone', null, null::bigint, null::int, null::boolean, null::boolean,
      null::int;
  end if;
end
$$;

-- Declare a claimed unit handled; the caller's next statement is COMMIT. Returns false when this is no
-- longer the transaction that claimed it. Who was parked behind it follows. A unit that was dead stays
-- as 'redriven'; of one that only waited nothing is kept.
create or replace function gapless.finish_letter(
  group_id text, topic_id int, partition_id int, first_offset bigint, claim_xid text
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
begin
  if pg_current_xact_id_if_assigned()::text is distinct from finish_letter.claim_xid then
    return false;
  end if;
  perform gapless.release_keys(
    finish_letter.group_id, finish_letter.topic_id, finish_letter.partition_id,
    finish_letter.first_offset
  );
  with forgotten as (
    delete from gapless.dead_letter d
    where d.group_id = finish_letter.group_id and d.topic_id = finish_letter.topic_id
      and d.partition_id = finish_letter.partition_id
      and d.first_offset = finish_letter.first_offset and d.died_ts is null
    returning d.first_offset, d.last_offset
  )
  delete from gapless.dead_letter_event e
  using forgotten f
  where e.group_id = finish_letter.group_id and e.topic_id = finish_letter.topic_id
    and e.partition_id = finish_letter.partition_id
    and e.c_offset between f.first_offset and f.last_offset and e.first_offset = f.first_offset;
  return gapless.finish_units(finish_letter.claim_xid, 1);
end
$$;

-- Say that a unit failed again: it waits once more (state 'waiting') or is given up ('dead').
-- counted: false when its handler was not called. Returns false when fenced, or when a person did
-- something else with it meanwhile.
-- locks: the consumer_offsets row, then the unit's
create or replace function gapless.letter_failed(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid, first_offset bigint,
  state text, reason text, exception text,
  exception_class text default null, sqlstate text default null, retry_after interval default null,
  worker text default null, duration_ms double precision default null, counted boolean default true
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
  now_ts timestamptz := clock_timestamp();
begin
  if not gapless.lock_fence(
    letter_failed.group_id, letter_failed.topic_id, letter_failed.partition_id,
    letter_failed.epoch, letter_failed.token
  ) then
    return false;
  end if;
  update gapless.dead_letter d
  set state = letter_failed.state,
    attempts = d.attempts + letter_failed.counted::int,
    crashes = 0,
    next_attempt_ts = case
      when letter_failed.state = 'waiting' then now_ts + coalesce(letter_failed.retry_after, '0 s')
    end,
    reason = letter_failed.reason, exception = letter_failed.exception,
    exception_class = letter_failed.exception_class, sqlstate = letter_failed.sqlstate,
    worker = letter_failed.worker, duration_ms = letter_failed.duration_ms,
    first_failed_ts = case when d.attempts = 0 then now_ts else d.first_failed_ts end,
    last_failed_ts = now_ts,
    died_ts = case when letter_failed.state = 'dead' then now_ts else d.died_ts end
  where d.group_id = letter_failed.group_id and d.topic_id = letter_failed.topic_id
    and d.partition_id = letter_failed.partition_id and d.first_offset = letter_failed.first_offset
    and coalesce(d.state, '') = 'waiting';
  return found;
end
$$;

-- Lock the row that every batch locks, and tell whether (epoch, token) still owns the partition (I7).
create or replace function gapless.lock_fence(
  group_id text, topic_id int, partition_id int, epoch bigint, token uuid
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
begin
  perform from gapless.consumer_offsets c
  where c.group_id = lock_fence.group_id and c.topic_id = lock_fence.topic_id
    and c.partition_id = lock_fence.partition_id
    and c.epoch = lock_fence.epoch and c.token = lock_fence.token
  for update;
  return found;
end
$$;

-- Refuses the COMMIT of a unit that was claimed but not declared finished, as refuse_early_commit()
-- does for batches: a handler that says COMMIT would otherwise be handled and not known to be (I6).
create or replace function gapless.refuse_early_letter()
returns trigger
language plpgsql
as $$
begin
  if current_setting('gapless.finished', true) is distinct from pg_current_xact_id()::text then
    perform gapless.refuse_commit();
  end if;
  return null;
end
$$;

do $$
begin
  if not exists (
    select from pg_trigger t
    where t.tgrelid = 'gapless.dead_letter'::regclass and t.tgname = 'refuse_early_letter'
  ) then
    create constraint trigger refuse_early_letter
      after update of state on gapless.dead_letter
      deferrable initially deferred
      for each row when (new.state = 'redriven' and old.state = 'waiting')
      execute function gapless.refuse_early_letter();
  end if;
end
$$;
