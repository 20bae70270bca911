-- Deliver units that were set aside and are due to the client that owns their partition: redriven, waiting or parked
-- ones.
-- Returns their events; each such unit ends with commit_redriven() or reject_unit(). A unit that killed its members
-- max_crashes times is given up. Before: the fence is locked.
create or replace function gapless.deliver_units_again(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid, _max_events int, _crashes_max int,
  _worker text
) returns table (
  c_offset bigint, first_offset bigint, last_offset bigint, attempt int, key text, event_type text, payload json,
  headers jsonb, host_id text, user_id text, transaction_id uuid, created_ts timestamptz
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  due record;
  unit gapless.dead_letter;
  reason text;
begin
  for due in
    select l.first_offset as at from gapless.letters_due(_group_id, _topic_id, _partition_id) l
    where l.first_offset is not null
    order by l.first_offset
  loop
    exit when _max_events <= 0;
    select d.* into unit from gapless.dead_letter d
    where d.group_id = _group_id and d.topic_id = _topic_id and d.partition_id = _partition_id
      and d.first_offset = due.at and coalesce(d.state, '') = 'waiting'
    for update skip locked;
    exit when not found;    -- a person is changing it: a later unit must not overtake it
    if unit.epoch is distinct from _epoch then
      if unit.crashes >= _crashes_max then
        reason := format('handed out %s times to members that went away without an answer', unit.crashes);
        perform gapless.letter_failed(
          _group_id, _topic_id, _partition_id, _epoch, _token, due.at, 'dead', reason, reason,
          _worker => _worker, _counted => false
        );
        continue;
      end if;
      update gapless.dead_letter d set crashes = d.crashes + 1, epoch = _epoch
      where d.group_id = _group_id and d.topic_id = _topic_id and d.partition_id = _partition_id
        and d.first_offset = due.at
      returning d.crashes into unit.crashes;
    end if;
    return query
    select e.c_offset, unit.first_offset, unit.last_offset, unit.attempts + unit.crashes, e.key, e.event_type,
      e.payload, e.headers, e.host_id, e.user_id, e.transaction_id, e.created_ts
    from gapless.dead_letter_event e
    where e.group_id = _group_id and e.topic_id = _topic_id and e.partition_id = _partition_id
      and e.c_offset between unit.first_offset and unit.last_offset and e.first_offset = unit.first_offset
      and e.is_kept
    order by e.c_offset;
    _max_events := _max_events - unit.events;
  end loop;
end
$$;
