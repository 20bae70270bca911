-- Discard the events of an id without a topic (null: of all such ids): they are deleted, because no group has ever seen
-- them. Returns their number. An event that the sequencer has not seen yet stays.
create or replace function gapless.discard_unrouted(topic_id int default null) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  state gapless.sequencer;
  gone bigint;
begin
  if discard_unrouted.topic_id is not null then
    perform gapless.list_unrouted(discard_unrouted.topic_id);
  end if;
  perform from gapless.unrouted u order by u.topic_id for update;
  -- MUST come after the locks: no run counts in these rows any more, and those before it are visible.
  select * into strict state from gapless.sequencer s order by s.run desc limit 1;
  with
  discarded as (
    delete from gapless.unrouted u
    where u.topic_id = coalesce(discard_unrouted.topic_id, u.topic_id)
    returning u.topic_id, u.events, u.first_id, u.last_id
  ),
  noted as (
    insert into gapless.audit (action, group_id, topic_id, detail)
    select 'discard-unrouted', '', d.topic_id, jsonb_build_object('events', d.events)
    from discarded d
  )
  delete from gapless.outbox_message_t o
  where o.id between (select min(d.first_id) from discarded d) and (select max(d.last_id) from discarded d)
    and (discard_unrouted.topic_id is null or o.topic_id = discard_unrouted.topic_id)
    and not exists (select from gapless.topic t where t.topic_id = o.topic_id)
    and (o.id <= state.floor_id or pg_visible_in_snapshot(o.xid, state.snapshot));
  get diagnostics gone = row_count;
  return gone;
end
$$;
