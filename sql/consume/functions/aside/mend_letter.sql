-- Put a dead or discarded unit back into the dead letter queue with corrected events: their event types, headers and
-- payloads, in the order of their offsets, for all events of the unit. The unit is dead afterwards, and
-- redrive_letter() has it handled. The log keeps the original events. Returns:
--   'mended'   done, and written to gapless.audit
--   'waiting', 'parked', 'redriven'   the state of the unit, which is being handled or was handled; nothing was done
--   'busy', 'absent'   as redrive_letter(); 'other events'   the offsets are not those of the unit
-- Raises GL400 unless the arrays are as long as offsets.
-- An absent unit was handled, or never failed: to take it in again would handle it twice (I6).
create or replace function gapless.mend_letter(
  group_id text, topic text, partition_id int, first_offset bigint, offsets bigint[],
  event_types text[], headers text[], payloads text[], mended_by text default null
) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  wanted int := gapless.topic_id(mend_letter.topic);
  found_state text;
  last_offset bigint;
  changed int;
begin
  perform gapless.lock_keys(mend_letter.group_id, wanted, mend_letter.partition_id);
  found_state := gapless.lock_letter(
    mend_letter.group_id, wanted, mend_letter.partition_id, mend_letter.first_offset
  );
  if found_state not in ('dead', 'discarded') then
    return found_state;
  end if;
  -- MUST bound the events by their offsets: by first_offset alone, those of all units of the partition are read.
  select d.last_offset into last_offset
  from gapless.dead_letter d
  where d.group_id = mend_letter.group_id and d.topic_id = wanted
    and d.partition_id = mend_letter.partition_id and d.first_offset = mend_letter.first_offset;
  if mend_letter.offsets is distinct from (
    select array_agg(e.c_offset order by e.c_offset)
    from gapless.dead_letter_event e
    where e.group_id = mend_letter.group_id and e.topic_id = wanted
      and e.partition_id = mend_letter.partition_id and e.first_offset = mend_letter.first_offset
      and e.c_offset between mend_letter.first_offset and last_offset
  ) then
    return 'other events';
  end if;
  if (cardinality(event_types), cardinality(headers), cardinality(payloads))
    is distinct from (cardinality(offsets), cardinality(offsets), cardinality(offsets))
  then
    raise exception 'of the % events each has an event type, headers and a payload, if only null',
      coalesce(cardinality(offsets), 0)
      using errcode = 'GL400';
  end if;
  update gapless.dead_letter_event e
  set event_type = u.event_type, headers = u.headers::jsonb, payload = u.payload::json
  from unnest(
    mend_letter.offsets, mend_letter.event_types, mend_letter.headers, mend_letter.payloads
  ) as u (c_offset, event_type, headers, payload)
  where e.group_id = mend_letter.group_id and e.topic_id = wanted
    and e.partition_id = mend_letter.partition_id and e.c_offset = u.c_offset
    and e.c_offset between mend_letter.first_offset and last_offset
    and (e.event_type, e.headers, e.payload::text)
      is distinct from (u.event_type, u.headers::jsonb, u.payload);
  get diagnostics changed = row_count;
  update gapless.dead_letter d
  set state = 'dead', token = null, died_ts = coalesce(d.died_ts, clock_timestamp()), closed_ts = null,
    discarded_by = null, discard_reason = null
  where d.group_id = mend_letter.group_id and d.topic_id = wanted
    and d.partition_id = mend_letter.partition_id and d.first_offset = mend_letter.first_offset;
  insert into gapless.audit (who, action, group_id, topic_id, partition_id, detail)
  values (
    coalesce(mend_letter.mended_by, session_user), 'mend', mend_letter.group_id, wanted,
    mend_letter.partition_id,
    jsonb_build_object(
      'offset', mend_letter.first_offset, 'was', found_state, 'events_changed', changed
    )
  );
  return 'mended';
end
$$;
