-- Summarize the units that gapless.forget_letters() is about to remove: the number in each state, and the person and
-- the reason of each discarded unit, at most 1000.
create or replace function gapless.sum_letters(_group_id text, _topic_id int, _partition_id int, _from_offset bigint)
returns jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  with lost as (
    select d.first_offset, d.state, d.discarded_by, d.discard_reason
    from gapless.dead_letter d
    where d.group_id = _group_id and d.topic_id = _topic_id
      and d.partition_id = _partition_id and d.first_offset >= _from_offset
  )
  select jsonb_strip_nulls(
    coalesce(
      (
        select jsonb_object_agg(c.state, c.units)
        from (select l.state, count(*) as units from lost l group by l.state) c
      ), '{}')
    || jsonb_build_object('discards', (
      select jsonb_agg(x)
      from (
        select l.first_offset as "offset", l.discarded_by as "by", l.discard_reason as reason
        from lost l where l.state = 'discarded' order by l.first_offset limit 1000
      ) x
    ))
  )
$$;
