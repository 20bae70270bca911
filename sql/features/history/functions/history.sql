-- Return the recorded minutes of a group, a topic or all, from `since` to before `until`; minutes that nobody recorded
-- are missing. A row without group_id is of a topic; one without a topic of the whole database, and has the sums.
-- of_group, of_topic: null is all, '' is rows without one.
-- lag_s: the age of the oldest unhandled event when the minute began; null: that event is missing. handled, published:
-- events since the minute before began; null: unknown.
-- series_max, series_skip: at most so many series, behind so many: by topic and group, those without one first.
-- index: the primary keys of history_hour and history_minute, a range for each series
create or replace function gapless.history(
  of_group text default null, of_topic text default null,
  since timestamptz default now() - interval '6 hours', until timestamptz default now(),
  series_max int default null, series_skip int default 0
)
returns table (
  group_id text, topic text, minute timestamptz, lag bigint, lag_s bigint, handled bigint, dead_letters bigint,
  members bigint, published bigint
)
language sql stable set search_path = pg_catalog, pg_temp set jit = off as $$
  with bounds as materialized (
    select floor(extract(epoch from greatest(since, to_timestamp(c.first * 3600::bigint))) / 60)::int as first,
      ceil(extract(epoch from least(until, to_timestamp((c.last + 1) * 3600::bigint))) / 60)::int - 1 as last
    from (select min(c.hour) as first, max(c.hour) as last from gapless.history_clock c) c
    where c.first is not null
  ),
  recorded as materialized (
    select m.minute
    from bounds b
    join gapless.history_clock c on c.hour between b.first / 60 and b.last / 60
    cross join lateral unnest(gapless.minutes_of(c.hour, c.minutes)) m (minute)
    where m.minute between b.first and b.last
  ),
  series as materialized (
    select s.series_no, s.group_id, t.name as topic, b.first, b.last
    from bounds b
    cross join gapless.history_series s
    left join gapless.topic t using (topic_id)
    where (of_group is null or coalesce(s.group_id, '') = of_group)
      and (of_topic is null or coalesce(t.name, '') = of_topic)
    order by t.name nulls first, s.group_id nulls first
    limit series_max offset series_skip
  ),
  -- Of each series also the last row before the range, because its numbers may still hold.
  told as (
    select s.series_no, n.*
    from series s
    join gapless.history_hour h on h.series_no = s.series_no and h.hour <= s.last / 60 and h.hour >= coalesce((
      select max(x.hour) from gapless.history_hour x where x.series_no = s.series_no and x.hour < s.first / 60
    ), 0)
    cross join lateral gapless.unpack_hour(h) n
    union all
    select m.series_no, m.minute, m.lag, m.oldest, m.handled, m.published, m.dead_letters, m.members
    from series s
    join gapless.history_minute m using (series_no)
    where m.minute <= s.last
  ),
  spans as (
    select x.*, lead(x.minute) over (partition by x.series_no order by x.minute) as next from told x
  )
  select s.group_id, s.topic, to_timestamp(m * 60::bigint), x.lag,
    case
      when x.lag = 0 then 0
      when x.oldest is not null then greatest(m * 60::bigint - x.oldest, 0)
    end,
    x.handled, x.dead_letters, x.members, x.published
  from spans x
  join series s using (series_no)
  cross join lateral generate_series(greatest(x.minute, s.first), least(x.next - 1, s.last)) m
  join recorded r on r.minute = m
$$;
