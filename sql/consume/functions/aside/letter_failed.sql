-- Record that a unit failed again: it waits once more (state 'waiting') or is given up ('dead'). counted: false when
-- its handler was not called. Returns false when fenced, or when a person changed its state in between.
-- locks: the consumer_offsets row, then the unit's
create or replace function gapless.letter_failed(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid, _first_offset bigint,
  _state text, _reason text, _exception text,
  _exception_class text default null, _sqlstate text default null, _retry_after interval default null,
  _worker text default null, _duration_ms double precision default null, _counted boolean default true
) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  now_ts timestamptz := clock_timestamp();
begin
  if not gapless.lock_fence(_group_id, _topic_id, _partition_id, _epoch, _token) then
    return false;
  end if;
  update gapless.dead_letter d
  set state = _state,
    attempts = d.attempts + _counted::int,
    crashes = 0,
    epoch = null,    -- a former holder ends it no more, whatever becomes of it
    next_attempt_ts = case
      when _state = 'waiting' then now_ts + coalesce(_retry_after, '0 s')
    end,
    reason = _reason, exception = _exception,
    exception_class = _exception_class, sqlstate = _sqlstate,
    worker = _worker, duration_ms = _duration_ms,
    first_failed_ts = case when d.attempts = 0 then now_ts else d.first_failed_ts end,
    last_failed_ts = now_ts,
    died_ts = case when _state = 'dead' then now_ts else d.died_ts end
  where d.group_id = _group_id and d.topic_id = _topic_id
    and d.partition_id = _partition_id and d.first_offset = _first_offset
    and coalesce(d.state, '') = 'waiting';
  return found;
end
$$;
