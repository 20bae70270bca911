-- What a group has done with a published transaction, over all topics and partitions it covers:
--   'handled'      all its events were handled, and the effects are committed
--   'dead'         passed, but some of its events are dead letters, or were discarded
--   'waiting'      passed, but some of its events wait to be tried again
--   'pending'      the group has not come to all of its events yet
--   'unsequenced'  committed, but not all of its events have an offset yet
--   'open'         not committed yet, as far as this session can see
--   'rolled-back'  it never was
--   'elsewhere'    it published, but into no topic of this group
--   'unknown'      no event of that transaction is there: it published none, was not committed yet, was
--                  rolled back, or is older than the log
-- Looks, waits for nothing. Raises GL404 for an unknown group.
create or replace function gapless.transaction_state(group_id text, transaction_id uuid)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  covered int[];
  place record;
  found_any boolean := false;
  passed boolean := true;
  aside text[] := '{}';     -- states of what was put aside
begin
  select array_agg(g.topic_id) into covered
  from gapless.consumer_group g where g.group_id = transaction_state.group_id;
  if covered is null then
    raise exception 'there is no group "%": gapless groups lists them', transaction_state.group_id
      using errcode = 'GL404';
  end if;
  for place in
    select l.*, c.next_offset
    from gapless.locate(transaction_state.transaction_id, covered) l
    left join gapless.consumer_offsets c
      on c.group_id = transaction_state.group_id and c.topic_id = l.topic_id
      and c.partition_id = l.partition_id
  loop
    if place.partition_id is null then
      return 'unsequenced';
    end if;
    found_any := true;
    passed := passed and coalesce(place.last_offset < place.next_offset, false);
    aside := aside || gapless.states_aside(
      transaction_state.group_id, place.topic_id, place.partition_id,
      place.first_offset, place.last_offset, transaction_state.transaction_id
    );
  end loop;
  if found_any then
    return case
      when not passed then 'pending'
      when 'waiting' = any (aside) then 'waiting'
      when 'dead' = any (aside) then 'dead'
      else 'handled'
    end;
  end if;
  if exists (select from gapless.locate(transaction_state.transaction_id)) then
    return 'elsewhere';
  end if;
  return gapless.transaction_fate(transaction_state.transaction_id);
end
$$;

-- Of the events from first_offset to last_offset that belong to a transaction: is some of them put
-- aside, to be tried again ('waiting') or for good ('dead')?
create or replace function gapless.states_aside(
  group_id text, topic_id int, partition_id int, first_offset bigint, last_offset bigint,
  transaction_id uuid
)
returns text[]
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(
    array_agg(distinct case when d.status in ('waiting', 'parked') then 'waiting' else 'dead' end),
    '{}')
  from gapless.dead_letter_queue d
  where d.group_id = states_aside.group_id and d.topic_id = states_aside.topic_id
    and d.partition_id = states_aside.partition_id
    and d.c_offset between states_aside.first_offset and states_aside.last_offset
    and d.transaction_id = states_aside.transaction_id
$$;

-- What became of a transaction without events, by its xid: 'open', 'rolled-back', else 'unknown'.
create or replace function gapless.transaction_fate(transaction_id uuid)
returns text
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if gapless.timeline_of(transaction_id) <> gapless.timeline() then
    return 'unknown';    -- that xid is another transaction's now
  end if;
  return case pg_xact_status(gapless.xid_of(transaction_id))
    when 'in progress' then 'open'
    when 'aborted' then 'rolled-back'
    else 'unknown'
  end;
exception when invalid_parameter_value then    -- an xid that nobody has had yet
  return 'unknown';
end
$$;

-- Wait until a group has handled a published transaction, or put it aside for good; returns what
-- gapless.transaction_state() says then, or when the time is over, or when waiting cannot help.
--   select gapless.wait_for('billing', gapless_transaction_id, '5 s') = 'handled';
-- Call it outside the publishing transaction, under READ COMMITTED. It looks every 2 to 50 ms.
create or replace function gapless.wait_for(
  group_id text, transaction_id uuid, timeout interval default '10 s'
)
returns text
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select w.state
  from gapless.wait_through(array[wait_for.group_id], wait_for.transaction_id, wait_for.timeout) w
$$;
