-- Stop subscriptions of a group in a partition, because their SQL conditions raised or were slow: ids, with reasons.
-- They are no longer evaluated for this partition; their events wait from the group's offset on, until
-- resume_subscription().
-- Returns the number of subscriptions that it stopped; null: (epoch, token) is no longer the partition's owner (I7).
-- Audited.
-- MUST commit before a claim passes the first of these events: the claiming worker rolls back, stops, and claims again.
-- locks: the fence
create or replace function gapless.stop_subscriptions(
  _group_id text, _topic_id int, _partition_id int, _epoch bigint, _token uuid, _ids bigint[], _reasons text[]
) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  stopped text[];
begin
  if not gapless.lock_fence(_group_id, _topic_id, _partition_id, _epoch, _token) then
    return null;
  end if;
  with made as (
    insert into gapless.subscription_stop (subscription_id, partition_id, from_offset, reason)
    select s.subscription_id, _partition_id, c.next_offset, u.reason
    from unnest(_ids, _reasons) u (id, reason)
    join gapless.subscription s on s.subscription_id = u.id and s.group_id = _group_id and s.topic_id = _topic_id
    join gapless.consumer_offsets c
      on c.group_id = _group_id and c.topic_id = _topic_id and c.partition_id = _partition_id
    on conflict do nothing
    returning subscription_id
  )
  select array_agg(s.name order by s.name) into stopped
  from made m join gapless.subscription s using (subscription_id);
  if stopped is not null then
    insert into gapless.audit (action, group_id, topic_id, partition_id, detail)
    values (
      'stop_subscriptions', _group_id, _topic_id, _partition_id,
      jsonb_build_object('subscriptions', cardinality(stopped), 'first', stopped[1], 'reason', left(_reasons[1], 300))
    );
  end if;
  return coalesce(cardinality(stopped), 0);
end
$$;
