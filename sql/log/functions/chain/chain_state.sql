-- Tell the state of a transaction, and of events that it caused, in several groups, one behind the other. The first
-- group has to handle the events of the transaction; each later group has to handle the same events, and those that the
-- group before it published for them; all this in the topics that the group covers.
--   select * from gapless.chain_state(array['billing', 'shipping'], '…');
-- Returns a state and its group: those of the first group that is not done, as gapless.transaction_state() gives them.
-- When all are done: 'handled', or 'dead' and the first group that has dead letters of it. A group that publishes
-- nothing ends the chain: later groups have nothing to do. Only the first group can have the state 'elsewhere'. It
-- reads only, and waits for nothing. Raises GL404 for an unknown group.
create or replace function gapless.chain_state(groups text[], transaction_id uuid, out state text, out group_id text)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  died_in text;
  to_handle bigint[];    -- the units that the last examined group has to handle
  found_states text[];
begin
  if coalesce(cardinality(groups), 0) = 0 then
    raise exception 'of which groups? the first, then those that handle what it publishes'
      using errcode = 'GL400';
  end if;
  foreach group_id in array groups loop
    if not exists (
      select from gapless.consumer_group g where g.group_id = chain_state.group_id
    ) then
      raise exception 'there is no group "%": gapless groups lists them', group_id
        using errcode = 'GL404';
    end if;
  end loop;

  group_id := groups[1];
  state := gapless.transaction_state(group_id, transaction_id);
  if state = 'dead' then
    died_in := group_id;
  elsif state <> 'handled' then
    return;
  end if;

  -- MUST look for a group's events in a later statement than the one that saw the group done: then those events have
  -- committed, too.
  for link in 2..cardinality(groups) loop
    group_id := groups[link];
    if gapless.chain_waits(chain_state.transaction_id, groups[link - 1], group_id) then
      state := 'scheduled';
      return;
    end if;
    with
    units as materialized (
      select * from gapless.chain_units(chain_state.transaction_id)
    ),
    before as (
      select u.first_id from units u
      where u.first_id = any (to_handle) or (link = 2 and u.is_asked)
    ),
    wanted as (
      select u.* from units u
      where u.first_id in (select b.first_id from before b)
        or (
          u.cause_group = groups[link - 1]
          and u.parent_id in (select b.first_id from before b)
        )
    )
    select
      array_agg(w.first_id),
      array_agg(distinct s.state) filter (where s.state <> 'removed')    -- not of its topics
    into to_handle, found_states
    from wanted w
    cross join lateral (
      select case when w.partition_id is null and x.state <> 'removed' then 'unsequenced' else x.state end
      from gapless.unit_state(
        groups[link], w.topic_id, w.partition_id, w.first_offset, w.last_offset
      ) x
    ) as s (state);
    state := case
      when 'unsequenced' = any (found_states) then 'unsequenced'
      when 'pending' = any (found_states) then 'pending'
      when 'waiting' = any (found_states) then 'waiting'
      when 'skipped' = any (found_states) then 'skipped'
    end;
    if state is not null then
      return;
    end if;
    if 'dead' = any (found_states) then
      died_in := coalesce(died_in, group_id);
    end if;
  end loop;
  state := case when died_in is null then 'handled' else 'dead' end;
  group_id := coalesce(died_in, group_id);
end
$$;
