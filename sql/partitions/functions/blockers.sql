-- Barriers keep the order of a key when the number of partitions changes (I4).
--
-- Partition p under n partitions and q under m can have keys in common if p and q leave the same
-- remainder by gcd(n, m). So 4 -> 8 makes each partition wait for one, 4 -> 7 for four.
--
-- Return the partitions that a group has to bring to their barriers before it may handle events that this layout placed
-- in this partition; none: continue. Looks at all earlier layouts, not only at the last one: a layout without an event
-- of a key says nothing about the one before.
create or replace function gapless.blockers(_group_id text, _topic_id int, _partition_id int, _layout int)
returns table (blocker int)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select distinct b.partition_id
  from gapless.layout n
  join gapless.layout o on o.topic_id = n.topic_id and o.layout < n.layout
  join gapless.barrier b on b.topic_id = o.topic_id and b.layout = o.layout
    and b.partition_id <> _partition_id
    and (b.partition_id - _partition_id) % gcd(o.partitions, n.partitions) = 0
  join gapless.consumer_offsets c on c.ctid = gapless.offset_row(_group_id, b.topic_id, b.partition_id)
    and c.next_offset <= b.last_offset
  where n.topic_id = _topic_id and n.layout = _layout
$$;
