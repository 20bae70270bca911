-- Return the traces of a group's workers: its offsets, last owners and deliveries. While these do not change, no worker
-- claims.
create or replace function gapless.group_traces(_group_id text) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
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
