-- Return the subscriptions of a group that match these events: rows of (n, matched), n the place of the event in
-- message_ids, from 1, perhaps several for one event; none for an event that no subscription matches. error: why none
-- could be evaluated (a payload that is no jsonb); such an event is delivered, with no subscription.
-- to_group: as in kept_in(); events for another group match nothing here. A message to one subscription
-- (direct_headers.sql) matches that one alone, whatever its conditions, also SQL conditions; none as long as that one
-- is stopped in this partition (resume_subscription() delivers it then); and a message to an unknown subscription is
-- delivered, with error, so that it is not lost.
-- The forms are read after the caller has read the events: an event that was published after subscribe() committed
-- finds the subscription.
-- Subscriptions that are stopped in this partition match nothing (stop_subscriptions.sql). only: these alone; null:
-- all. It ignores SQL conditions: the worker evaluates those, under a time limit (ask_conditions.sql).
-- plan: for each event and form one look-up in subscription_match; a condition is asked of its results
create or replace function gapless.match_events(
  _group_id text, _topic_id int, _partition_id int, _message_ids bigint[], _to_group text default null,
  _only bigint[] default null
) returns table (n int, matched bigint[], error text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off set plan_cache_mode = auto
as $$
#variable_conflict use_column
declare
  forms gapless.subscription_form[] := array(
    select f from gapless.subscription_form f
    where f.group_id = _group_id and f.topic_id = _topic_id and f.condition_digest is null
  );
  form gapless.subscription_form;
  event record;
  only_one record;    -- the subscription that a message is for
  body jsonb;
  found_values jsonb;
begin
  -- EXECUTE plans it anew each time, as claim_events() does; the queries for each event keep their plans.
  for event in execute $query$
    select u.n, o.payload, o.event_type, o.key, o.host_id, o.user_id,
      case
        when $2 is not null and o.headers ->> 'gapless-to-group' = $2 then o.headers ->> 'gapless-to-subscription'
      end as to_subscription
    from unnest($1) with ordinality as u (id, n)
    cross join lateral (
      select * from gapless.outbox_message_t m where m.id = u.id and m.id between $3 and $4 offset 0
    ) o
    where $2 is null or coalesce(o.headers ->> 'gapless-to-group', $2) = $2
    $query$
    using _message_ids, _to_group,
      (select min(i) from unnest(_message_ids) i), (select max(i) from unnest(_message_ids) i)
  loop
    n := event.n;
    matched := null;
    error := null;
    if event.to_subscription is not null then
      select array[s.subscription_id] as number,
        exists (
          select from gapless.subscription_stop p
          where p.subscription_id = s.subscription_id and p.partition_id = _partition_id
        ) as is_stopped
      into only_one
      from gapless.subscription s
      where s.group_id = _group_id and s.topic_id = _topic_id and s.name = event.to_subscription;
      if not found then
        error := format('group "%s" has no subscription "%s"', _group_id, event.to_subscription);
        return next;
      elsif not only_one.is_stopped then
        matched := only_one.number;
        return next;
      end if;
      continue;
    end if;
    begin
      body := event.payload::jsonb;
    exception when others then
      if left(sqlstate, 2) in ('40', '53', '57', '58', 'XX') then
        raise;
      end if;
      error := 'no subscription could be asked: ' || sqlerrm;
    end;
    if error is not null then
      return next;
      continue;
    end if;
    foreach form in array forms loop
      found_values := gapless.match_values(
        form.match_paths, body, event.event_type, event.key, event.host_id, event.user_id
      );
      matched := array(
        select s.subscription_id from gapless.subscription s
        where s.form_id = form.form_id
          and jsonb_hash_extended(s.match_values, 0) = jsonb_hash_extended(found_values, 0)
          and s.match_values = found_values
          -- MUST check the form again: the server chooses the order of evaluation, and another form's condition lacks
          -- variables.
          and (
            form.condition is null
            or case
              when s.form_id = form.form_id then jsonb_path_match(body, form.condition, s.params, silent => true)
            end
          )
          and (_only is null or s.subscription_id = any (_only))
          and not exists (
            select from gapless.subscription_stop p
            where p.subscription_id = s.subscription_id and p.partition_id = _partition_id
          )
      );
      if matched <> '{}' then
        return next;
      end if;
    end loop;
  end loop;
  if gapless.is_in_default(_message_ids) then
    raise exception using errcode = 'GL000';    -- its locks go, its rows stay
  end if;
exception
  when sqlstate 'GL000' then
    null;
end
$$;
