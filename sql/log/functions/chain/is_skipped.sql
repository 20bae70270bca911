-- Tell whether a group passed offsets without a call: it began after them, or the newest seek over one of them went
-- forward; known as long as the audit is kept. For offsets that it has passed (is_past()).
-- index: audit_group
create or replace function gapless.is_skipped(
  _group_id text, _topic_id int, _partition_id int, _first_offset bigint, _last_offset bigint
) returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce(
    (
      select c.start_offset > _last_offset from gapless.consumer_offsets c
      where c.ctid = gapless.offset_row(_group_id, _topic_id, _partition_id)
    ), false)
    or coalesce(
      (
        select m.old_offset < m.new_offset
        from gapless.audit a
        cross join lateral (
          select (a.detail ->> 'from')::bigint as old_offset, (a.detail ->> 'to')::bigint as new_offset
        ) m
        where a.group_id = _group_id and a.topic_id = _topic_id and a.partition_id = _partition_id
          and a.action = 'seek'
          and least(m.old_offset, m.new_offset) <= _last_offset
          and greatest(m.old_offset, m.new_offset) > _first_offset
        order by a.audit_id desc
        limit 1
      ), false)
$$;
