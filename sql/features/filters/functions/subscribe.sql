-- Let a group take the events of a topic that this subscription matches; the group's offset passes events that none of
-- its subscriptions matches, without handling them. Events that are published afterwards are matched.
-- name: 1 to 200 characters. A subscription of that name is replaced under its number: its waiting work (dead letters,
-- stopped units, a batch in hand) is handled for the new subscription.
-- match: the params that have to be equal to parts of an event, '{"customer": "$.customer_id"}'. A part is a field of
-- the payload, or event_type, key, host_id or user_id. A missing part counts as null.
-- condition: a jsonpath predicate over the payload, with params as its variables, '$.total > $min'. Among the
-- subscriptions whose values match, those take the event for which the condition is true, too.
-- sql_condition: an SQL expression over e, the event (condition_event), and s, the subscription (name, params), which
-- has to be true as well, '(e.payload ->> ''total'')::numeric > (s.params ->> ''min'')::numeric': make_condition.sql
-- says which expressions are allowed. A subscription whose condition raises, or is slow, is stopped alone, and its
-- events wait (stop_subscriptions.sql).
-- Give match, condition, sql_condition or several. Units that were stopped for a replaced subscription stay so until it
-- is resumed.
-- params: an object of at most 10000 characters, with a value for each name of match and variable of condition;
-- handlers see it.
-- expires_after: the subscription goes when it was not renewed for so long (by renew_subscription(), or by subscribing
-- again), 1 minute to ten years; null: never. Time in which no supervisor ran does not count
-- (expire_subscriptions.sql).
-- Returns whether that is a change. Raises GL400 for an invalid subscription, for a queue group, and for a group with a
-- filter; GL404 for an unknown group.
-- locks: the group's filter row: one at a time. The first one of a group as set_filter()
create or replace function gapless.subscribe(
  group_id text, topic text, name text, match jsonb default '{}', params jsonb default '{}',
  condition text default null, expires_after interval default null,
  sql_condition text default null
) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  wanted int := gapless.topic_id(topic);
  names text[];
  paths text[];
  path jsonpath := gapless.check_subscription(
    subscribe.name, subscribe.match, subscribe.params, subscribe.condition,
    subscribe.sql_condition is not null
  );
  wanted_digest uuid;
  given jsonb;
  form int;
  reading interval := gapless.expiry_reading();
  before interval;
  compiled uuid := md5(subscribe.sql_condition)::uuid;
  former_form int;
begin
  perform gapless.check_expiry(format('subscription "%s"', subscribe.name), subscribe.expires_after);
  if not gapless.lock_subscriptions(subscribe.group_id, subscribe.topic, wanted) then
    perform gapless.begin_subscriptions(subscribe.group_id, subscribe.topic, wanted);
  end if;
  select coalesce(array_agg(m.key), '{}'), coalesce(array_agg(m.value), '{}'),
    coalesce(jsonb_agg(subscribe.params -> m.key), '[]')
  into names, paths, given
  from jsonb_each_text(subscribe.match) m;
  wanted_digest := md5(jsonb_build_array(names, paths, path::text)::text || coalesce(compiled::text, ''))::uuid;

  -- The same subscription again is a renewal.
  select s.expires_after into before from gapless.subscription s
  join gapless.subscription_form f using (form_id)
  where s.group_id = subscribe.group_id and s.topic_id = wanted and s.name = subscribe.name
    and f.digest = wanted_digest and s.params = subscribe.params;
  if found then
    update gapless.subscription s set expires_after = subscribe.expires_after, renewed_at = reading
    where s.group_id = subscribe.group_id and s.topic_id = wanted and s.name = subscribe.name;
    if before is distinct from subscribe.expires_after then
      insert into gapless.audit (action, group_id, topic_id, detail)
      values (
        'subscribe', subscribe.group_id, wanted,
        jsonb_build_object('name', subscribe.name, 'expires_after', subscribe.expires_after)
      );
      return true;
    end if;
    return false;
  end if;
  if compiled is not null then
    begin
      compiled := gapless.make_condition(subscribe.sql_condition);
    exception when sqlstate 'GL400' then
      raise exception 'the SQL condition of subscription "%" %', subscribe.name, sqlerrm using errcode = 'GL400';
    end;
  end if;
  select f.form_id into form from gapless.subscription_form f
  where f.group_id = subscribe.group_id and f.topic_id = wanted and f.digest = wanted_digest;
  if not found then
    insert into gapless.subscription_form (
      group_id, topic_id, digest, match_names, match_paths, condition, condition_digest
    )
    values (subscribe.group_id, wanted, wanted_digest, names, paths, path, compiled)
    returning form_id into form;
  end if;
  select s.form_id into former_form from gapless.subscription s
  where s.group_id = subscribe.group_id and s.topic_id = wanted and s.name = subscribe.name;
  insert into gapless.subscription (
    group_id, topic_id, name, form_id, params, match_values, expires_after, renewed_at
  )
  values (
    subscribe.group_id, wanted, subscribe.name, form, subscribe.params, given, subscribe.expires_after, reading
  )
  on conflict on constraint subscription_group_id_topic_id_name_key do update
  set form_id = excluded.form_id, params = excluded.params, match_values = excluded.match_values,
    expires_after = excluded.expires_after, renewed_at = excluded.renewed_at, set_by = excluded.set_by,
    set_ts = excluded.set_ts;
  perform gapless.forget_form(former_form);
  insert into gapless.audit (action, group_id, topic_id, detail)
  values (
    'subscribe', subscribe.group_id, wanted,
    jsonb_build_object(
      'name', subscribe.name, 'match', subscribe.match, 'where', path::text, 'params', subscribe.params,
      'expires_after', subscribe.expires_after, 'sql_condition', subscribe.sql_condition
    )
  );
  return true;
end
$$;
