-- The end of a transaction that parked these units: those in front of which nobody is any more (a
-- person has discarded that one meanwhile) follow at once. The caller's next statement is COMMIT.
-- locks: the group's row of guard_keys until the transaction ends
create or replace function gapless.settle_parked(
  group_id text, topic_id int, partition_id int, first_offsets bigint[]
)
returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform gapless.lock_keys(
    settle_parked.group_id, settle_parked.topic_id, settle_parked.partition_id
  );
  return gapless.unpark(
    settle_parked.group_id, settle_parked.topic_id, settle_parked.partition_id,
    settle_parked.first_offsets
  );
end
$$;
