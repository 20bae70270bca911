-- Explain why no segment has an offset that take_next() reached. outcome 'there': one has it now; 'idle': the offset is
-- the end of the log; 'overrun', 'hole': as claim_at(); 'beyond': the floor is behind it. MUST be one statement: in a
-- later snapshot, segments that were written in between would look like a hole.
create or replace function gapless.queue_end(_topic_id int, _partition_id int, _lease_no int, _start bigint)
returns table (outcome text, last_offset bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
  select
    case
      when b.last_offset >= _start then 'there'
      when _start < gapless.log_first(_topic_id, _partition_id) then 'overrun'
      when a.base_offset is not null then 'hole'
      when f.next_offset > e.end_offset then 'beyond'
      else 'idle'
    end,
    case
      when b.last_offset >= _start then b.last_offset
      when _start < gapless.log_first(_topic_id, _partition_id)
        then gapless.log_first(_topic_id, _partition_id) - 1
      when a.base_offset is not null then a.base_offset - 1
      when f.next_offset > e.end_offset then e.end_offset
    end
  from gapless.log_ends(_topic_id, _partition_id) e
  cross join lateral gapless.floor_of(_lease_no) f
  left join lateral (
    select s.last_offset from gapless.log_segment s
    where s.topic_id = _topic_id and s.partition_id = _partition_id and s.base_offset <= _start
    order by s.base_offset desc limit 1
  ) b on true
  left join lateral (
    select s.base_offset from gapless.log_segment s
    where s.topic_id = _topic_id and s.partition_id = _partition_id and s.base_offset > _start
    order by s.base_offset limit 1
  ) a on true
$$;
