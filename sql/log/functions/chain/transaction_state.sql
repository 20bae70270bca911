-- Tell the state of a published transaction in a group, over all topics and partitions that the group covers:
--   'handled'      all its events were handled, or passed by the group's filter, and the effects are committed
--   'skipped'      passed, but some of its events without a call (is_skipped())
--   'dead'         passed, but some of its events are dead letters, or were discarded
--   'waiting'      passed, but some of its events wait to be tried again
--   'pending'      the group has not come to all of its events yet
--   'scheduled'    committed, but some of its events wait for their time (scheduled_until())
--   'unsequenced'  committed, but not all of its events have an offset yet
--   'open'         not committed yet, as far as this session can see
--   'rolled-back'  it was rolled back
--   'elsewhere'    it published, but into no topic of this group
--   'unknown'      no event of that transaction is there: it published none, was not committed yet, was rolled back, or
--                  is older than the log
-- It reads only, and waits for nothing. Raises GL404 for an unknown group.
create or replace function gapless.transaction_state(group_id text, transaction_id uuid) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  covered int[];
  place record;
  found_any boolean := false;
  passed boolean := true;
  skipped boolean := false;
  aside text[] := '{}';     -- states of units that were put aside
begin
  select array_agg(g.topic_id) into covered
  from gapless.consumer_group g where g.group_id = transaction_state.group_id;
  if covered is null then
    raise exception 'there is no group "%": gapless groups lists them', transaction_state.group_id
      using errcode = 'GL404';
  end if;
  -- MUST look first: the query below finds events that are promoted after this.
  if gapless.scheduled_until(transaction_state.transaction_id, covered) is not null then
    return 'scheduled';
  end if;
  for place in
    select l.*, c.next_offset
    from gapless.locate(transaction_state.transaction_id, covered) l
    left join gapless.consumer_offsets c
      on c.ctid = gapless.offset_row(transaction_state.group_id, l.topic_id, l.partition_id)
  loop
    if place.partition_id is null then
      -- 'open': this session's own transaction, whose events it sees before other sessions do
      return case gapless.transaction_fate(transaction_state.transaction_id)
        when 'open' then 'open' else 'unsequenced'
      end;
    end if;
    found_any := true;
    passed := passed and coalesce(gapless.is_past(
      transaction_state.group_id, place.topic_id, place.partition_id, place.first_offset, place.last_offset,
      place.next_offset
    ), false);
    aside := aside || gapless.states_aside(
      transaction_state.group_id, place.topic_id, place.partition_id,
      place.first_offset, place.last_offset, transaction_state.transaction_id
    );
    skipped := skipped or passed and gapless.is_skipped(
      transaction_state.group_id, place.topic_id, place.partition_id, place.first_offset, place.last_offset
    );
  end loop;
  if found_any then
    return case
      when not passed then 'pending'
      when 'waiting' = any (aside) then 'waiting'
      when 'dead' = any (aside) then 'dead'
      when skipped then 'skipped'
      else 'handled'
    end;
  end if;
  if exists (select from gapless.locate(transaction_state.transaction_id))
    or gapless.scheduled_until(transaction_state.transaction_id) is not null
  then
    return 'elsewhere';
  end if;
  return gapless.transaction_fate(transaction_state.transaction_id);
end
$$;
