-- End a transaction that parked these units: units without an earlier unit (a person has discarded it since) follow at
-- once. The caller's next statement is COMMIT.
-- locks: the group's row of guard_keys until the transaction ends
create or replace function gapless.settle_parked(
  _group_id text, _topic_id int, _partition_id int, _first_offsets bigint[]
) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform gapless.lock_keys(_group_id, _topic_id, _partition_id);
  return gapless.unpark(_group_id, _topic_id, _partition_id, _first_offsets);
end
$$;
