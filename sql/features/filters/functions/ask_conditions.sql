-- Evaluate the SQL conditions of a group's subscriptions for events: message_ids, the first at first_offset. One row:
--   offsets, matched  the matching events, ascending, and for each its subscriptions, numbers with commas between
--   failed, reasons   subscriptions whose condition raised for one of the events, with the errors, without values
--   slow, rest        at a timeout: the subscriptions that were being evaluated then, and those not evaluated at all
-- Each form is evaluated for all events at once. When that raises, it is evaluated by halves, down to one subscription,
-- so that the failing one is found, and does not affect the others. A failed one has no matches here. Subscriptions
-- that are stopped in this partition are left out (stop_subscriptions.sql). only: these alone; null: all.
-- MUST be a statement of its own under a statement_timeout, which alone ends a condition that loops. It may be
-- repeated: it writes nothing.
create or replace function gapless.ask_conditions(
  _group_id text, _topic_id int, _partition_id int, _message_ids bigint[], _first_offset bigint,
  _only bigint[] default null
) returns table (
  offsets bigint[], matched text[], failed bigint[], reasons text[], slow bigint[], rest bigint[]
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  events gapless.condition_event[] := gapless.condition_events(_group_id, _topic_id, _message_ids, _first_offset);
  limit_ms double precision := extract(epoch from current_setting('statement_timeout')::interval) * 1000;
  form record;
  asked gapless.condition_subscription[];    -- of the form
  places bigint[];      -- pairs to evaluate, by match: offsets, and subscriptions; null: all pairs
  numbers bigint[];
  low int[];    -- slices of asked that are left, inclusive
  high int[];
  first int;
  last int;
  answer record;
  hit_offsets bigint[] := '{}';
  hit_ids bigint[] := '{}';
  unasked_forms int[];
begin
  failed := '{}';
  reasons := '{}';
  slow := '{}';
  rest := '{}';
  unasked_forms := array(
    select f.form_id from gapless.subscription_form f
    where f.group_id = _group_id and f.topic_id = _topic_id and f.condition_digest is not null
    order by f.form_id
  );
  for form in
    select f.* from gapless.subscription_form f where f.form_id = any (unasked_forms) order by f.form_id
  loop
    places := null;
    numbers := null;
    if form.match_paths <> '{}' then
      select coalesce(array_agg(e.c_offset), '{}'), coalesce(array_agg(s.subscription_id), '{}')
      into places, numbers
      from unnest(events) e
      cross join lateral (
        select gapless.match_values(form.match_paths, e.payload, e.event_type, e.key, e.host_id, e.user_id) as v
        offset 0
      ) x
      join gapless.subscription s on s.form_id = form.form_id
        and jsonb_hash_extended(s.match_values, 0) = jsonb_hash_extended(x.v, 0)
        and s.match_values = x.v
        and (form.condition is null or jsonb_path_match(e.payload, form.condition, s.params, silent => true));
    elsif form.condition is not null then
      select coalesce(array_agg(e.c_offset), '{}'), coalesce(array_agg(s.subscription_id), '{}')
      into places, numbers
      from unnest(events) e
      join gapless.subscription s on s.form_id = form.form_id
        and jsonb_path_match(e.payload, form.condition, s.params, silent => true);
    end if;
    asked := array(
      select row(s.subscription_id, s.name, s.params)::gapless.condition_subscription
      from gapless.subscription s
      where s.form_id = form.form_id
        and (_only is null or s.subscription_id = any (_only))
        and (numbers is null or s.subscription_id = any (numbers))
        and not exists (
          select from gapless.subscription_stop p
          where p.subscription_id = s.subscription_id and p.partition_id = _partition_id
        )
      order by s.subscription_id
    );
    low := array[1];
    high := array[cardinality(asked)];
    while cardinality(low) > 0 loop
      first := low[cardinality(low)];
      last := high[cardinality(high)];
      low := trim_array(low, 1);
      high := trim_array(high, 1);
      continue when first > last;
      begin
        select a.offsets, a.ids into answer
        from gapless.ask_condition(form.condition_digest, events, asked[first : last], places, numbers) a;
        hit_offsets := hit_offsets || answer.offsets;
        hit_ids := hit_ids || answer.ids;
      exception
        when query_canceled then
          if extract(epoch from clock_timestamp() - statement_timestamp()) * 1000 < limit_ms * 0.9
            or limit_ms = 0
          then
            raise;    -- it was not the time limit
          end if;
          slow := array(select s.subscription_id from unnest(asked[first : last]) s);
          rest := array(
            select s.subscription_id
            from generate_subscripts(low, 1) i
            cross join lateral unnest(asked[low[i] : high[i]]) s
            union all
            select s.subscription_id from gapless.subscription s
            where s.form_id = any (unasked_forms) and s.form_id > form.form_id
              and (_only is null or s.subscription_id = any (_only))
          );
        when others then
          if left(sqlstate, 2) in ('40', '58') then
            raise;    -- says nothing of the condition
          end if;
          if first = last then
            failed := failed || asked[first].subscription_id;
            reasons := reasons || gapless.stop_reason(sqlerrm, sqlstate);
          else
            low := low || array[first, (first + last) / 2 + 1];
            high := high || array[(first + last) / 2, last];
          end if;
      end;
      exit when slow <> '{}';
    end loop;
    exit when slow <> '{}';
  end loop;
  select coalesce(array_agg(h.c_offset order by h.c_offset), '{}'),
    coalesce(array_agg(h.numbers order by h.c_offset), '{}')
  into offsets, matched
  from (
    select u.c_offset, string_agg(u.id::text, ',' order by u.id) as numbers
    from unnest(hit_offsets, hit_ids) u (c_offset, id)
    group by u.c_offset
  ) h;
  return next;
end
$$;
