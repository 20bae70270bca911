-- Return the offset of a partition that corresponds to a place of an old consumer: all ids below it were handled, none
-- from it on. Raises GL423 where no offset does: an event of a lower id comes behind one of a higher id.
-- plan: the rows from the place on by the primary key; the segments from the time on at which the first of them was
--   published.
create or replace function gapless.attach_cut(_made gapless.attached, _partition_id int, _place bigint) returns bigint
language plpgsql stable as $$
declare
  since timestamptz;
  cut bigint;
  late bigint;
begin
  select min(o.created_ts) into since
  from gapless.attached_row r join gapless.outbox_message_t o on o.id = r.message_id
  where r.attachment_id = (_made).attachment_id and r.source_id >= _place;
  with told as materialized (
    select s.base_offset + u.n - 1 as c_offset, u.id, r.source_id
    from gapless.log_segment s
    cross join lateral unnest(s.message_ids) with ordinality u (id, n)
    left join gapless.attached_row r
      on r.attachment_id = (_made).attachment_id and r.source_id >= _place and r.message_id = u.id
    where s.topic_id = (_made).topic_id and s.partition_id = _partition_id
      and s.base_offset >= gapless.segment_since((_made).topic_id, _partition_id, since)
  ),
  first as (
    select min(t.c_offset) as c_offset from told t where t.source_id is not null
  )
  select f.c_offset, (
    select min((o.headers #>> '{attached,id}')::bigint)
    from told t join gapless.outbox_message_t o on o.id = t.id
    where t.c_offset > f.c_offset and t.source_id is null
      and o.headers #>> '{attached,table}' = (_made).table_name
  )
  into cut, late
  from first f;
  if late < _place then
    raise exception 'no offset of partition % stands for id %: the event of id % comes behind it; let the old '
      'consumer move on, and try again', _partition_id, _place, late
      using errcode = 'GL423';
  end if;
  return coalesce(cut, (select e.end_offset from gapless.log_ends((_made).topic_id, _partition_id) e));
end
$$;
