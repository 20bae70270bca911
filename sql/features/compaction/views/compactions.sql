-- Compacted topics: lag, the events that are still to be taken in, in steps; keys, those with a value; keyless, events
-- without a key, or for one group, and missing, events that are missing from the log: both were passed. bytes: of the
-- events that are kept of all topics together.
-- stands_s: there are events, and for so long none were taken in (null: there are none). starting: groups that read the
-- newest events and have not reached the log yet. A topic that is no longer compacted, and whose rows are being
-- removed, is here with is_on false.
create or replace view gapless.compactions as
select
  t.name as topic,
  t.compacted as is_on,
  sum(e.lag)::bigint as lag,
  greatest(sum(c.keys), 0)::bigint as keys,
  sum(c.keyless)::bigint as keyless,
  sum(c.missing)::bigint as missing,
  pg_total_relation_size('gapless.latest') as bytes,
  max(c.moved_ts) as moved_ts,
  case when sum(e.lag) > 0 then greatest(
    extract(epoch from clock_timestamp() - greatest(max(c.moved_ts), min(e.since_ts))), 0
  )::double precision end as stands_s,
  (
    select coalesce(array_agg(distinct o.group_id), '{}') from gapless.all_offsets o
    where o.topic_id = t.topic_id and o.next_offset < o.latest_upto
  ) as starting
from gapless.topic t
join gapless.compaction c using (topic_id)
cross join lateral (
  select
    case when t.compacted then x.end_offset - c.next_offset else 0 end as lag,
    (
      select s.sequenced_ts from gapless.segments_from(t.topic_id, c.partition_id, c.next_offset, 1) s
      where t.compacted and c.next_offset < x.end_offset
    ) as since_ts
  from gapless.log_ends(t.topic_id, c.partition_id) x
) e
group by t.topic_id;

comment on view gapless.compactions is 'Topics of which the newest event of each key is kept, and how far that is.';
