-- What is left of whoever works for a group: where it is, who had it last, what is given out. While this stays as it
-- is, nobody claims.
create or replace function gapless.group_traces(_group_id text)
returns text
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select md5(concat_ws('/',
    (
      select string_agg(concat_ws(',', c.topic_id, c.partition_id, c.next_offset, c.epoch), ';'
        order by c.topic_id, c.partition_id)
      from gapless.all_offsets c where c.group_id = _group_id
    ),
    (
      select concat_ws(',', count(*), max(r.last_offset), max(r.since_ts), sum(r.tries))
      from gapless.lease l
      join gapless.queue_range r using (lease_no)
      where l.group_id = _group_id
    ),
    (
      select concat_ws(',', count(*), sum(d.attempts), max(d.next_attempt_ts))
      from gapless.dead_letter d where d.group_id = _group_id
    )
  ))
$$;
