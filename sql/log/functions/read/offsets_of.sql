-- Return the offsets of sequenced events: those of `ids` that are found, each with its partition and the timeline on
-- which it was given. partition_id: where their keys lead now; a topic that had another number of partitions has them
-- elsewhere, and is searched. since: they were not sequenced before.
-- By index: the segments from that time on, few at first.
create or replace function gapless.offsets_of(_topic_id int, _partition_id int, _ids bigint[], _since timestamptz)
returns table (id bigint, partition_found int, c_offset bigint, timeline int)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set plan_cache_mode = force_generic_plan set jit = off as $$
#variable_conflict use_column
declare
  missing bigint[] := _ids;
  place int;
  from_base bigint;
  look_at int;      -- segments; more each time: they need not be the next ones
  hit record;
begin
  for place in
    select p
    from gapless.topic t
    cross join lateral generate_series(0, greatest(t.partitions, t.partitions_ever) - 1) p
    where t.topic_id = _topic_id
    order by p <> _partition_id, p
  loop
    exit when cardinality(missing) = 0;
    from_base := gapless.segment_since(_topic_id, place, _since);
    look_at := 4;
    while from_base is not null and cardinality(missing) > 0 loop
      select
        coalesce(array_agg(w.id) filter (where w.id is not null), '{}') as ids,
        array_agg(x.base_offset + u.n - 1) filter (where w.id is not null) as offsets,
        array_agg(x.timeline) filter (where w.id is not null) as timelines,
        max(x.last_offset) + 1 as next_base
      into hit
      from (
        select s.base_offset, s.last_offset, s.message_ids, s.timeline from gapless.log_segment s
        where s.topic_id = _topic_id and s.partition_id = place
          and s.base_offset >= from_base
        order by s.base_offset
        limit look_at
      ) x
      cross join unnest(x.message_ids) with ordinality as u (id, n)
      left join unnest(missing) as w (id) on w.id = u.id;
      if cardinality(hit.ids) > 0 then
        return query
        select f.id, place, f.c_offset, f.timeline
        from unnest(hit.ids, hit.offsets, hit.timelines) as f (id, c_offset, timeline);
        missing := array(select unnest(missing) except all select unnest(hit.ids));
      end if;
      from_base := hit.next_base;
      look_at := least(look_at * 4, 4096);
    end loop;
  end loop;
end
$$;
