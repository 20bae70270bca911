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
