-- Close dead letters that a batch has handled, and leave those dead that it could not take again, which have a reason;
-- in the transaction that decides the batch. The n-th of the arrays belong together; _due: as they were read. Raises GL409 when a person
-- has changed one since.
-- locks: the units' rows
create or replace function gapless.end_redriven(
  _name text, _topic_ids int[], _partition_ids int[], _offsets bigint[], _due timestamptz[], _reasons text[]
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
declare
  now_ts timestamptz := clock_timestamp();
  ended int;
begin
  perform set_config('gapless.finished', pg_current_xact_id()::text, true);    -- refuse_early_letter.sql
  update gapless.dead_letter d
  set state = case when u.reason is not null then 'dead' else 'redriven' end,
    next_attempt_ts = null, crashes = 0,
    attempts = d.attempts + (u.reason is not null)::int,
    reason = case when u.reason is not null then u.reason else d.reason end,
    exception = case when u.reason is not null then u.reason else d.exception end,
    last_failed_ts = case when u.reason is not null then now_ts else d.last_failed_ts end,
    closed_ts = case when u.reason is not null then null else now_ts end
  from unnest(_topic_ids, _partition_ids, _offsets, _due, _reasons)
    as u (topic_id, partition_id, first_offset, due, reason)
  where d.group_id = 'pipeline.' || _name and d.topic_id = u.topic_id and d.partition_id = u.partition_id
    and d.first_offset = u.first_offset and d.state = 'waiting' and d.next_attempt_ts = u.due;
  get diagnostics ended = row_count;
  if ended <> cardinality(_offsets) then
    raise exception 'dead letters of pipeline % were changed while it handled them: they are read again', _name
      using errcode = 'GL409';
  end if;
end
$$;
