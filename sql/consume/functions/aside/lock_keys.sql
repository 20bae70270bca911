-- Lock the keys of a group: one session at a time parks units, or releases them, until its COMMIT.
-- locks: the group's row of guard_keys until the transaction ends
create or replace function gapless.lock_keys(_group_id text, _topic_id int, _partition_id int) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  -- The keys of the whole group: a key may have been in another partition before.
  number int := (
    select g.group_no from gapless.consumer_group g
    where g.group_id = _group_id and g.topic_id = _topic_id
  );
begin
  insert into gapless.guard_keys (group_no) values (number) on conflict do nothing;
  perform from gapless.guard_keys k where k.group_no = number for update;
end
$$;
