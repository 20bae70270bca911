-- Return the numbers of the subscriptions for an event that was set aside: those that it matched; for a message to one
-- (direct_headers.sql), the one that has that name now. Null, or an unused number: the event is for none.
create or replace function gapless.letter_subscriptions(_event gapless.dead_letter_event) returns bigint[]
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce((
    select array[s.subscription_id]
    from gapless.topic t
    join gapless.subscription s on s.group_id = _event.group_id and s.topic_id = t.topic_id
      and s.name = _event.headers ->> 'gapless-to-subscription'
    where t.topic_id = _event.topic_id and t.direct and _event.headers ->> 'gapless-to-group' = _event.group_id
  ), _event.subscriptions)
$$;
