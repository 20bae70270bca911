-- Return the first offset that was given to another event after a reader had read it, by a failover to a server that
-- lacked the reader's events. The reader's next event is at next_offset, and it read up to there on this timeline or an
-- earlier one. Null: the reader's events are those of the log.
create or replace function gapless.replaced_from(_topic_id int, _partition_id int, _next_offset bigint, _timeline int)
returns bigint
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
  select case
    when gapless.timeline_at(_topic_id, _partition_id, _next_offset - 1) > _timeline then (
      select min(s.base_offset) from gapless.log_segment s
      where s.topic_id = _topic_id and s.partition_id = _partition_id and s.timeline > _timeline
    )
  end
$$;
