-- Wake the workers of the partitions that waited for the last partition with common keys: this one has passed the
-- barriers of the layouts from `since` up to, not including, `upto`.
-- MUST come after the commit of the batch that passed the barrier: of two that pass at once, each would find the other
-- one still before it. A lost wake-up costs waitPeriodMs.
create or replace function gapless.announce(_group_id text, _topic_id int, _partition_id int, _since int, _upto int)
returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select count(pg_notify('gapless_p_' || _topic_id || '_' || w.waiting, ''))
  from (
    select distinct p as waiting
    from gapless.barrier mine
    join gapless.layout o on o.topic_id = mine.topic_id and o.layout = mine.layout
    join gapless.layout n on n.topic_id = o.topic_id and n.layout > o.layout
    cross join lateral (select gcd(o.partitions, n.partitions) as step) g
    cross join lateral generate_series(_partition_id % g.step, n.partitions - 1, g.step) p
    where mine.topic_id = _topic_id and mine.partition_id = _partition_id
      and mine.layout >= _since and mine.layout < _upto
      and p <> _partition_id
      and not exists (
        select from gapless.barrier b
        join gapless.consumer_offsets c on c.topic_id = b.topic_id
          and c.partition_id = b.partition_id and c.next_offset <= b.last_offset
        where b.topic_id = mine.topic_id and b.layout = mine.layout
          and b.partition_id <> _partition_id
          and (b.partition_id - _partition_id) % g.step = 0
          and c.group_id = _group_id
      )
  ) w
$$;
