-- Return the next id for a group at an offset of a partition: the lowest that is not handled; where all are handled,
-- one beyond all published ids.
create or replace function gapless.place_of(_made gapless.attached, _partition_id int, _next_offset bigint)
returns bigint
language sql stable as $$
  select coalesce(
    (
      select min((o.headers #>> '{attached,id}')::bigint)
      from gapless.log_segment s
      cross join lateral unnest(s.message_ids) with ordinality u (id, n)
      join gapless.outbox_message_t o on o.id = u.id
      where s.topic_id = (_made).topic_id and s.partition_id = _partition_id and s.last_offset >= _next_offset
        and s.base_offset + u.n - 1 >= _next_offset
        and o.headers #>> '{attached,table}' = (_made).table_name
    ),
    (
      select max(r.source_id) + 1 from gapless.attached_row r where r.attachment_id = (_made).attachment_id
    ),
    1
  )
$$;
