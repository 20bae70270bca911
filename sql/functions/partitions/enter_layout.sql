-- The group handles events of this layout in this partition: so all it has to wait for is done, and it
-- is past the barriers of the layouts before.
-- Before: the offsets row is locked.
create or replace function gapless.enter_layout(
  group_id text, topic_id int, partition_id int, layout int
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  since int;
begin
  select c.passed into since from gapless.consumer_offsets c
  where c.group_id = enter_layout.group_id and c.topic_id = enter_layout.topic_id
    and c.partition_id = enter_layout.partition_id and c.layout < enter_layout.layout;
  if found then
    update gapless.consumer_offsets c
    set layout = enter_layout.layout, passed = greatest(c.passed, enter_layout.layout)
    where c.group_id = enter_layout.group_id and c.topic_id = enter_layout.topic_id
      and c.partition_id = enter_layout.partition_id;
    perform gapless.announce(group_id, topic_id, partition_id, since, enter_layout.layout);
  end if;
end
$$;
