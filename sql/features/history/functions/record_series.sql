-- Write the rows of a minute: a part of record_history(); return their number. goes_on: the minute before was recorded.
-- share: this part of the growth since then is of this minute, the rest of the next one. Groups that were moved since,
-- by a person or past events that retention dropped, have no count of handled events. A group that a transaction
-- deletes is passed: this minute is as the one before, and the next one has no count.
-- locks: the series whose numbers changed, and new groups and topics
create or replace function gapless.record_series(_minute int, _goes_on boolean, _share numeric) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp set jit = off as $$
declare
  told int;
  state gapless.history_state;
begin
  select s.* into strict state from gapless.history_state s;
  insert into gapless.history_series (topic_id, group_id)
  select null, null
  where not exists (select from gapless.history_series s where s.topic_id is null);
  insert into gapless.history_series (topic_id)
  select t.topic_id from gapless.topic t
  where not exists (select from gapless.history_series s where s.topic_id = t.topic_id and s.group_id is null)
  for key share of t skip locked;
  insert into gapless.history_series (topic_id, group_id)
  select g.topic_id, g.group_id from gapless.consumer_group g
  where not g.is_scratch
    and not exists (select from gapless.history_series s where s.topic_id = g.topic_id and s.group_id = g.group_id)
  for key share of g skip locked;
  with moved as materialized (
    -- A transaction that was open at the recording before may have moved them long before its COMMIT.
    select distinct a.group_id, a.topic_id from gapless.audit a
    where a.at_ts >= state.last_ts - interval '1 hour' and a.action in ('seek', 'skip', 'restore', 'overrun')
      and (a.at_ts >= state.last_ts - interval '1 min' or age(a.xmin) <= age(state.open_xid))
  ),
  seen as materialized (
    select s.series_no, s.done as counted, n.*,
      case
        when _goes_on and n.done >= s.done and m.group_id is null and s.series_no <> all (state.passed)
          then round((n.done - s.done) * _share)::bigint
      end as events
    from gapless.sample_history() n
    join gapless.history_series s
      on coalesce(s.topic_id, 0) = n.topic_id and coalesce(s.group_id, '') = coalesce(n.group_id, '')
    left join moved m on m.group_id = n.group_id and m.topic_id = n.topic_id
  ),
  numbers as (
    select n.series_no, coalesce(n.counted + n.events, n.done) as done, n.lag, n.oldest,
      case when n.group_id is not null then n.events end as handled,
      case when n.group_id is null then n.events end as published,
      n.dead_letters, n.members
    from seen n
    union all
    select s.series_no, null, coalesce(x.lag, 0), x.oldest, x.handled, x.published, coalesce(x.dead_letters, 0),
      coalesce(x.members, 0)
    from gapless.history_series s
    cross join (
      select sum(n.lag)::bigint as lag, min(n.oldest) as oldest,
        sum(n.events) filter (where n.group_id is not null)::bigint as handled,
        sum(n.events) filter (where n.group_id is null)::bigint as published,
        sum(n.dead_letters)::bigint as dead_letters, sum(n.members)::bigint as members
      from seen n
    ) x
    where s.topic_id is null
  ),
  changed as materialized (
    select n.*, x.is_told
    from numbers n
    join gapless.history_series s using (series_no)
    cross join lateral (
      select not _goes_on or (n.lag, n.oldest, n.handled, n.published, n.dead_letters, n.members)
        is distinct from (s.lag, s.oldest, s.handled, s.published, s.dead_letters, s.members) as is_told
    ) x
    where x.is_told or n.done is distinct from s.done
  ),
  fresh as materialized (
    select c.* from changed c join gapless.history_series s using (series_no) for no key update of s skip locked
  ),
  left_out as (
    select coalesce(array_agg(c.series_no), '{}') as passed
    from changed c
    where not exists (select from fresh f where f.series_no = c.series_no)
  ),
  noted as (
    update gapless.history_state s set passed = l.passed from left_out l where s.passed <> l.passed
  ),
  kept as (
    update gapless.history_series s
    set done = f.done, lag = f.lag, oldest = f.oldest, handled = f.handled, published = f.published,
      dead_letters = f.dead_letters, members = f.members
    from fresh f
    where f.series_no = s.series_no
  )
  insert into gapless.history_minute
    (series_no, minute, lag, oldest, handled, published, dead_letters, members)
  select f.series_no, _minute, f.lag, f.oldest, f.handled, f.published, f.dead_letters, f.members
  from fresh f where f.is_told;
  get diagnostics told = row_count;
  return told;
end
$$;
