-- Commit all events of a partition below next_offset as handled, and renew the deadline. Returns whether the group's
-- offset moved (false: it was there already).
--   select gapless.commit('gm_…', 0, 17);
-- next_offset is last_offset + 1 of a unit that poll() gave this client, under its present lease. In your own
-- transaction, the offset commits or rolls back with your writes: exactly once (I6).
-- Raises GL006 when the deadline has passed, GL007 when the partition went to another member, or never was this
-- client's; GL409 for an offset that was not delivered to it, or lies before the committed one. On any error the offset
-- stays where it is.
create or replace function gapless.commit(token text, partition_id int, next_offset bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  me record;
  held record;
  handed bigint;
begin
  select c.* into me from gapless.client_of(commit.token) c;
  select h.* into held
  from gapless.client_lease(me.member_id, me.group_id, me.topic_id, commit.partition_id) h;
  if commit.next_offset is distinct from held.next_offset then
    -- All units in between, whole, by this lease: after a seek it would be another place.
    select sum(d.last_offset - d.first_offset + 1) into handed
    from gapless.delivery d
    where d.group_id = me.group_id and d.topic_id = me.topic_id and d.partition_id = commit.partition_id
      and d.first_offset >= held.next_offset and d.last_offset < commit.next_offset
      and (d.epoch = held.epoch or d.finished);
    if commit.next_offset < held.next_offset then
      raise exception 'partition % is at offset % already: a commit moves it forward only',
        commit.partition_id, held.next_offset
        using errcode = 'GL409';
    end if;
    if (handed = commit.next_offset - held.next_offset) is not true then
      raise exception 'partition % cannot be moved from offset % to %: poll has not handed out all in between to this '
        'member, in whole units', commit.partition_id, held.next_offset, coalesce(commit.next_offset::text, 'null')
        using errcode = 'GL409';
    end if;
    perform gapless.note_deliveries(
      me.group_id, me.topic_id, commit.partition_id, held.epoch, held.token, held.next_offset, '{}', '{}', '{}', '{}',
      commit.next_offset
    );
  end if;
  perform gapless.end_client_turn(
    me.member_id, me.group_id, me.topic_id, me.expires_at, me.ttl, commit.partition_id, held.epoch, held.token,
    held.is_going
  );
  return commit.next_offset <> held.next_offset;
end
$$;
