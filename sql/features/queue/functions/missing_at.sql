-- Return the offsets around one that are missing from a partition of the log: events that retention dropped, a hole
-- between segments, or a single missing event. A row of nulls: the offset is there, or will come.
-- MUST stay one statement: in a later snapshot, segments that were written in between would look like a hole.
create or replace function gapless.missing_at(
  _topic_id int, _partition_id int, _c_offset bigint, out first_offset bigint, out last_offset bigint
)
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
  select
    case
      when _c_offset < w.log_first then 1
      when b.last_offset >= _c_offset then _c_offset
      else greatest(b.last_offset + 1, w.log_first)
    end,
    case
      when _c_offset < w.log_first then w.log_first - 1
      when b.last_offset >= _c_offset then _c_offset
      else a.base_offset - 1
    end
  from (
    select gapless.log_first(_topic_id, _partition_id) as log_first
  ) w
  left join lateral (
    select s.last_offset, s.message_ids[_c_offset - s.base_offset + 1] as id from gapless.log_segment s
    where s.topic_id = _topic_id and s.partition_id = _partition_id and s.base_offset <= _c_offset
    order by s.base_offset desc limit 1
  ) b on true
  left join lateral (
    select s.base_offset from gapless.log_segment s
    where s.topic_id = _topic_id and s.partition_id = _partition_id and s.base_offset > _c_offset
    order by s.base_offset limit 1
  ) a on true
  where _c_offset < w.log_first
    or coalesce(b.last_offset, 0) < _c_offset and a.base_offset is not null
    or b.last_offset >= _c_offset and not exists (
      select from gapless.outbox_message_t o where o.id = b.id
    )
$$;
