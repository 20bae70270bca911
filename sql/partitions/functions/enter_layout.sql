-- Let a group handle events of this layout in this partition: all its blockers are done, and it is past the barriers of
-- the layouts before.
-- Before: the offsets row is locked.
create or replace function gapless.enter_layout(_group_id text, _topic_id int, _partition_id int, _layout int)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  since int;
begin
  select c.passed into since from gapless.consumer_offsets c
  where c.group_id = _group_id and c.topic_id = _topic_id
    and c.partition_id = _partition_id and c.layout < _layout;
  if found then
    update gapless.consumer_offsets c
    set layout = _layout, passed = greatest(c.passed, _layout)
    where c.group_id = _group_id and c.topic_id = _topic_id and c.partition_id = _partition_id;
    perform gapless.announce(_group_id, _topic_id, _partition_id, since, _layout);
  end if;
end
$$;
