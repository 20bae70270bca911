-- Reject a unit that poll() gave: it is dead, with the reason, and stays in the dead letter queue until a person
-- redrives or discards it. The group continues behind it. The units before it in the partition are committed first.
--   select gapless.reject_unit('gm_…', 0, 17, 'no such customer');
-- Raises GL400 without a reason; GL006 and GL007 as commit(); GL409 for a unit that is neither the first that this
-- member has in hand of the partition, nor a redriven one.
-- locks: the consumer_offsets row, then the unit's
create or replace function gapless.reject_unit(token text, partition_id int, first_offset bigint, reason text)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  me record;
  held record;
  unit gapless.delivery;
  ids bigint[];
begin
  if coalesce(trim(reject_unit.reason), '') = '' then
    raise exception 'a unit is rejected with a reason' using errcode = 'GL400';
  end if;
  select c.* into me from gapless.client_of(reject_unit.token) c;
  select h.* into held
  from gapless.client_lease(me.member_id, me.group_id, me.topic_id, reject_unit.partition_id) h;
  if exists (
    select from gapless.dead_letter d
    where d.group_id = me.group_id and d.topic_id = me.topic_id and d.partition_id = reject_unit.partition_id
      and d.first_offset = reject_unit.first_offset and coalesce(d.state, '') = 'waiting' and d.epoch = held.epoch
  ) then
    perform gapless.letter_failed(
      me.group_id, me.topic_id, reject_unit.partition_id, held.epoch, held.token, reject_unit.first_offset, 'dead',
      left(reject_unit.reason, 500), reject_unit.reason, _worker => me.name
    );
  else
    select d.* into unit from gapless.delivery d
    where d.group_id = me.group_id and d.topic_id = me.topic_id and d.partition_id = reject_unit.partition_id
      and d.first_offset = reject_unit.first_offset and d.first_offset = held.next_offset
      and d.epoch = held.epoch and not d.finished;
    if not found then
      raise exception 'the unit at offset % of partition % is not the first that this member has in hand, and no '
        'redriven one: commit those before it', coalesce(reject_unit.first_offset::text, 'null'),
        reject_unit.partition_id
        using errcode = 'GL409';
    end if;
    select array_agg(u.id order by s.base_offset, u.n) into ids
    from gapless.log_segment s
    cross join lateral unnest(s.message_ids) with ordinality as u (id, n)
    where s.topic_id = me.topic_id and s.partition_id = reject_unit.partition_id
      and s.base_offset <= unit.last_offset and s.last_offset >= unit.first_offset
      and s.base_offset >= coalesce(
        (
          select b.base_offset from gapless.log_segment b
          where b.topic_id = me.topic_id and b.partition_id = reject_unit.partition_id
            and b.base_offset <= unit.first_offset
          order by b.base_offset desc limit 1
        ), 0)
      and s.base_offset + u.n - 1 between unit.first_offset and unit.last_offset;
    perform gapless.set_aside(
      me.group_id, me.topic_id, reject_unit.partition_id, unit.first_offset, ids, 'dead',
      left(reject_unit.reason, 500), reject_unit.reason, _attempts => unit.attempts, _worker => me.name
    );
    perform gapless.note_deliveries(
      me.group_id, me.topic_id, reject_unit.partition_id, held.epoch, held.token, held.next_offset, '{}', '{}', '{}',
      '{}', unit.last_offset + 1
    );
  end if;
  perform gapless.end_client_turn(
    me.member_id, me.group_id, me.topic_id, me.expires_at, me.ttl, reject_unit.partition_id, held.epoch, held.token,
    held.is_going
  );
end
$$;
