-- Return the first offset whose event was published (created_ts) at that time or later, else the end.
create or replace function gapless.offset_since(_topic_id int, _partition_id int, _since timestamptz) returns bigint
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  from_base bigint := gapless.segment_since(_topic_id, _partition_id, _since);
  segment record;
  place bigint;
begin
  for segment in
    select s.base_offset, s.message_ids from gapless.log_segment s
    where s.topic_id = _topic_id and s.partition_id = _partition_id
      and s.base_offset >= from_base
    order by s.base_offset
  loop
    select segment.base_offset + u.n - 1 into place
    from unnest(segment.message_ids) with ordinality as u (id, n)
    cross join lateral (
      select e.created_ts from gapless.outbox_message_t e where e.id = u.id offset 0
    ) o
    where o.created_ts >= _since
    order by u.n
    limit 1;
    if found then    -- possibly of a dropped event whose chunk remains
      return greatest(place, gapless.log_first(_topic_id, _partition_id));
    end if;
  end loop;
  return (gapless.log_ends(_topic_id, _partition_id)).end_offset;
end
$$;
