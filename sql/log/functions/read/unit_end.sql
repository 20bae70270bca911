-- Return the last offset of the unit that contains an offset (I5), and when it was sequenced. A run ends its last unit,
-- so there is one.
create or replace function gapless.unit_end(
  _topic_id int, _partition_id int, _c_offset bigint, out last_offset bigint, out sequenced_ts timestamptz
)
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
  select
    s.base_offset + x.skip + position(b'1' in substring(s.unit_ends from x.skip + 1)) - 1,
    s.sequenced_ts
  from gapless.segments_from(_topic_id, _partition_id, _c_offset, null) s
  cross join lateral (select greatest(_c_offset - s.base_offset, 0)::int as skip) x
  where position(b'1' in substring(s.unit_ends from x.skip + 1)) > 0
  order by s.base_offset
  limit 1
$$;
