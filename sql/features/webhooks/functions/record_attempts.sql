-- Record requests to endpoints, oldest first, and forget those of these endpoints that are older than their newest
-- _each_max. The arguments are arrays with an item for each request. For delivering workers, every few seconds.
-- Requests to a removed endpoint are not recorded.
-- locks: rows of webhook_state in the order of names. index: webhook_attempt_pkey
create or replace function gapless.record_attempts(
  _each_max int, _names text[], _at_s double precision[], _took_ms double precision[], _partitions int[],
  _offsets bigint[], _types text[], _attempts int[], _statuses int[], _answers text[]
) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  with said as (
    select u.*
    from unnest(_names, _at_s, _took_ms, _partitions, _offsets, _types, _attempts, _statuses, _answers)
      with ordinality u (name, at_s, took_ms, partition_id, first_offset, event_type, attempt, status, answer, n)
  ),
  locked as (    -- MUST be by name: two workers record at the same time
    select s.name from gapless.webhook_state s where s.name = any (_names) order by s.name for no key update
  ),
  counted as (
    update gapless.webhook_state s
    set attempts = s.attempts + c.more
    from (select u.name, count(*) as more from said u group by u.name) c
    join locked l using (name)
    where s.name = c.name
    returning s.name, s.attempts as newest, s.attempts - c.more as before
  ),
  added as (
    insert into gapless.webhook_attempt
      (name, attempt_no, at_ts, took_ms, partition_id, first_offset, event_type, attempt, status, answer)
    select c.name, c.before + row_number() over (partition by c.name order by u.n), to_timestamp(u.at_s), u.took_ms,
      u.partition_id, u.first_offset, u.event_type, u.attempt, u.status, left(u.answer, 200)
    from said u
    join counted c using (name)
  )
  delete from gapless.webhook_attempt a
  using counted c
  where a.name = c.name and a.attempt_no <= c.newest - _each_max
$$;
