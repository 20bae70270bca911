-- Commit a redriven unit that poll() gave as handled; units that are parked behind it follow. In your own transaction
-- it commits or rolls back with your writes.
-- Raises GL006 and GL007 as commit(), GL409 when this member has no such unit in hand (any more).
-- locks: the consumer_offsets row, the group's row of guard_keys, the unit's
create or replace function gapless.commit_redriven(token text, partition_id int, first_offset bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  me record;
  held record;
begin
  select c.* into me from gapless.client_of(commit_redriven.token) c;
  select h.* into held
  from gapless.client_lease(me.member_id, me.group_id, me.topic_id, commit_redriven.partition_id) h;
  perform gapless.lock_keys(me.group_id, me.topic_id, commit_redriven.partition_id);
  update gapless.dead_letter d
  set state = 'redriven', next_attempt_ts = null, closed_ts = clock_timestamp(), crashes = 0, epoch = null
  where d.group_id = me.group_id and d.topic_id = me.topic_id and d.partition_id = commit_redriven.partition_id
    and d.first_offset = commit_redriven.first_offset and d.epoch = held.epoch
    and coalesce(d.state, '') = 'waiting';
  if not found then
    raise exception 'this member has no redriven unit at offset % of partition % in hand (any more)',
      coalesce(commit_redriven.first_offset::text, 'null'), commit_redriven.partition_id
      using errcode = 'GL409';
  end if;
  perform set_config('gapless.finished', pg_current_xact_id()::text, true);
  perform gapless.close_letter(
    me.group_id, me.topic_id, commit_redriven.partition_id, commit_redriven.first_offset
  );
  perform gapless.end_client_turn(
    me.member_id, me.group_id, me.topic_id, me.expires_at, me.ttl, commit_redriven.partition_id, held.epoch,
    held.token, held.is_going
  );
end
$$;
