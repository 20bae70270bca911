-- Deliver its next units to the client that owns a partition, whole and in order: from the group's offset on, so
-- uncommitted units come again. Returns their events; attempt counts deliveries, also those to earlier members. Units
-- that were delivered before come alone, one at a time: so a unit that kills its members is known by its offset (I8). A
-- unit that did so crashes_max times, under as many owners, is set aside as dead. A unit that touches a key which an
-- earlier unit holds is parked behind that unit, as by a worker. Raises GL409 when the group was given a filter.
-- Before: the fence is locked. locks: guard_keys, when a key is held
create or replace function gapless.deliver_units(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid, _max_events int, _crashes_max int,
  _worker text
) returns table (
  c_offset bigint, first_offset bigint, last_offset bigint, attempt int, key text, event_type text, payload json,
  headers jsonb, host_id text, user_id text, transaction_id uuid, created_ts timestamptz
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off set plan_cache_mode = auto as $$
#variable_conflict use_column
declare
  claim record;
  head gapless.delivery;
  head_last bigint;
  cut bigint;     -- deliver the units before it
  why text;
  topic_name text;
  told text;
  tries int := 0;
  low bigint;      -- of ids
  high bigint;
begin
  loop
    tries := tries + 1;
    if tries > 1000 then    -- all parked, or passed: the next poll continues
      return;
    end if;
    select n.* into claim
    from gapless.next_units(_group_id, _topic_id, _partition_id, _epoch, _token, greatest(_max_events, 1)) n;
    if claim.outcome = 'filtered' then
      raise exception '%', coalesce(
        gapless.no_client_reason(_group_id, _topic_id), format('group "%s" has another filter now', _group_id)
      ) using errcode = 'GL409';
    end if;
    if claim.outcome <> 'claimed' then
      if claim.outcome = 'beyond' then
        perform gapless.stop_beyond(_group_id, _topic_id, _partition_id, _epoch, _token, claim.last_offset);
      end if;
      select t.name into topic_name from gapless.topic t where t.topic_id = _topic_id;
      told := gapless.standstill_reason(
        claim.outcome, _group_id, topic_name, _partition_id, claim.first_offset, claim.last_offset
      );
      perform gapless.report_error(_group_id, _topic_id, _partition_id, _token, told);
      return;
    end if;
    cut := claim.last_offset + 1;
    head_last := coalesce(
      (select min(u) from unnest(claim.units) u where u > claim.first_offset), cut
    ) - 1;
    select d.* into head from gapless.delivery d
    where d.group_id = _group_id and d.topic_id = _topic_id and d.partition_id = _partition_id
      and d.first_offset = claim.first_offset;
    why := null;
    if head.finished then    -- ahead of the offset, by an earlier worker
      null;
    elsif gapless.holds_keys(_group_id, _topic_id, _partition_id) then
      perform gapless.lock_keys(_group_id, _topic_id, _partition_id);
      select coalesce(min(k.first_offset), cut) into cut
      from gapless.unit_keys(_group_id, _topic_id, _partition_id, claim.message_ids, claim.units) k
      where k.is_held;
      if cut = claim.first_offset then
        why := 'parked behind an earlier unit of its key';
        perform gapless.set_aside(
          _group_id, _topic_id, _partition_id, cut, claim.message_ids[1 : (head_last - cut + 1)::int], 'parked',
          why, why, _attempts => 0, _worker => _worker
        );
        perform gapless.settle_parked(_group_id, _topic_id, _partition_id, array[cut]);
      end if;
    end if;
    if head.first_offset is not null and not head.finished and why is null then
      cut := least(cut, head_last + 1);
      if head.crashes >= _crashes_max and head.epoch is distinct from _epoch then
        why := format('handed out %s times to members that went away without an answer', head.crashes);
        perform gapless.set_aside(
          _group_id, _topic_id, _partition_id, claim.first_offset,
          claim.message_ids[1 : (head_last - claim.first_offset + 1)::int], 'dead', why, why,
          _attempts => head.attempts, _worker => _worker
        );
      end if;
    end if;
    exit when why is null and head.finished is not true;
    perform gapless.note_deliveries(
      _group_id, _topic_id, _partition_id, _epoch, _token, claim.first_offset, '{}', '{}', '{}', '{}', head_last + 1
    );
  end loop;

  perform gapless.report_error(_group_id, _topic_id, _partition_id, _token, null);
  -- As claim_events().
  select min(i), max(i), set_config('plan_cache_mode', 'force_custom_plan', true) into low, high
  from unnest(claim.message_ids) i;
  return query
  with
  events as (
    select u.id, u.unit, u.timeline, claim.first_offset + u.n - 1 as at
    from unnest(claim.message_ids, claim.units, claim.timelines) with ordinality as u (id, unit, timeline, n)
    where claim.first_offset + u.n - 1 < cut
  ),
  begun as (
    insert into gapless.delivery as d
      (group_id, topic_id, partition_id, first_offset, last_offset, attempts, crashes, epoch)
    select _group_id, _topic_id, _partition_id, e.unit, max(e.at), 1,
      (e.unit = claim.first_offset and max(e.at) = cut - 1)::int, _epoch    -- a unit that came alone is to blame
    from events e
    where not exists (
      select from gapless.delivery f
      where f.group_id = _group_id and f.topic_id = _topic_id and f.partition_id = _partition_id
        and f.first_offset = e.unit and f.finished
        -- MUST be a condition, too: a join reads all rows that it may, and deleted rows are in the index under a held
        -- snapshot.
        and f.first_offset between claim.first_offset and claim.last_offset
    )
    group by e.unit
    on conflict on constraint delivery_pkey do update
    set attempts = d.attempts + 1, last_offset = excluded.last_offset, epoch = excluded.epoch,
      began_ts = clock_timestamp(),
      crashes = d.crashes + case when d.epoch is distinct from excluded.epoch then excluded.crashes else 0 end
    returning d.first_offset, d.last_offset, d.attempts
  )
  select e.at, b.first_offset, b.last_offset, b.attempts, o.key, o.event_type, o.payload, o.headers, o.host_id,
    o.user_id, coalesce(o.transaction_id, gapless.transaction_uuid(o.xid, e.timeline)), o.created_ts
  from events e
  join begun b on b.first_offset = e.unit
  cross join lateral (
    select * from gapless.outbox_message_t m where m.id = e.id and m.id between low and high offset 0
  ) o
  order by e.at;
end
$$;
