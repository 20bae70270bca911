-- Look for units that wait in a partition of a group; it writes nothing. Returns a row with wait_s 0 for each unit that
-- is due, lowest offset first, at most letters_max; when none is due, one row without first_offset, whose wait_s is the
-- seconds until the next one is; no row when none waits.
-- index: dead_letter_open
create or replace function gapless.letters_due(
  _group_id text, _topic_id int, _partition_id int, _letters_max int default 64
) returns table (first_offset bigint, wait_s double precision)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  now_ts timestamptz := clock_timestamp();
begin
  if gapless.is_paused(_group_id, _topic_id, _partition_id) then
    return;
  end if;
  return query
  select d.first_offset, 0::double precision
  from gapless.dead_letter d
  where d.group_id = _group_id and d.topic_id = _topic_id and d.partition_id = _partition_id
    and d.state = 'waiting' and d.next_attempt_ts <= now_ts
  order by d.first_offset
  limit _letters_max;
  if not found then
    return query
    select null::bigint, extract(epoch from d.next_attempt_ts - now_ts)::double precision
    from gapless.dead_letter d
    where d.group_id = _group_id and d.topic_id = _topic_id
      and d.partition_id = _partition_id and d.state = 'waiting'
    order by d.next_attempt_ts
    limit 1;
  end if;
end
$$;
