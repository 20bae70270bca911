-- The rows of consumer_offsets, the newest version of each looked up from the index's end: each batch updates one, and
-- a scan reads all versions since a held snapshot. For queries that run again and again.
-- index: consumer_offsets_pkey, backwards, a look-up for each partition (offset_row.sql says why so)
create or replace view gapless.all_offsets as
select g.group_id, g.topic_id, p.partition_id, o.next_offset, o.epoch, o.token, o.layout, o.passed, o.start_offset,
  o.stop_offset, o.stopped_at, o.latest_upto
from gapless.consumer_group g
join gapless.topic t using (topic_id)
cross join lateral generate_series(0, greatest(t.partitions, t.partitions_ever) - 1) p (partition_id)
cross join lateral (
  select c.* from gapless.consumer_offsets c
  where c.group_id = g.group_id and c.topic_id = g.topic_id
    and c.partition_id between p.partition_id and p.partition_id
  order by c.partition_id desc limit 1
) o;

comment on view gapless.all_offsets is
  'The table consumer_offsets, read in a way that stays cheap while a snapshot is held.';
