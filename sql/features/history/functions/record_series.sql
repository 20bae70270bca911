-- Write the rows of a minute: a part of record_history(); return their number. goes_on: the minute before was recorded.
-- Groups that were moved since that time, by a person or past events that retention dropped, have no count of handled
-- events.
create or replace function gapless.record_series(_minute int, _goes_on boolean, _since_ts timestamptz) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp set jit = off as $$
declare
  told int;
begin
  insert into gapless.history_series (topic_id, group_id)
  select n.topic_id, n.group_id from (
    select null::int as topic_id, null::text as group_id
    union all select t.topic_id, null from gapless.topic t
    union all select g.topic_id, g.group_id from gapless.consumer_group g where not g.is_scratch
  ) n
  where not exists (
    select from gapless.history_series s
    where coalesce(s.topic_id, 0) = coalesce(n.topic_id, 0) and coalesce(s.group_id, '') = coalesce(n.group_id, '')
  );
  with moved as materialized (
    select distinct a.group_id, a.topic_id from gapless.audit a
    where a.at_ts >= _since_ts and a.action in ('seek', 'skip', 'restore', 'overrun')
  ),
  seen as materialized (
    select s.series_no, n.*,
      case
        when _goes_on and n.done >= s.done and m.group_id is null then n.done - s.done
      end as events
    from gapless.sample_history() n
    join gapless.history_series s
      on coalesce(s.topic_id, 0) = n.topic_id and coalesce(s.group_id, '') = coalesce(n.group_id, '')
    left join moved m on m.group_id = n.group_id and m.topic_id = n.topic_id
  ),
  numbers as (
    select n.series_no, n.done, n.lag, n.oldest,
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
  fresh as materialized (
    select n.*, s.done as done_before,
      not _goes_on or (n.lag, n.oldest, n.handled, n.published, n.dead_letters, n.members)
        is distinct from (s.lag, s.oldest, s.handled, s.published, s.dead_letters, s.members) as is_told
    from numbers n
    join gapless.history_series s using (series_no)
  ),
  kept as (
    update gapless.history_series s
    set done = f.done, lag = f.lag, oldest = f.oldest, handled = f.handled, published = f.published,
      dead_letters = f.dead_letters, members = f.members
    from fresh f
    where f.series_no = s.series_no and (f.is_told or f.done is distinct from f.done_before)
  )
  insert into gapless.history_minute
    (series_no, minute, lag, oldest, handled, published, dead_letters, members)
  select f.series_no, _minute, f.lag, f.oldest, f.handled, f.published, f.dead_letters, f.members
  from fresh f where f.is_told;
  get diagnostics told = row_count;
  return told;
end
$$;
