-- Return these events as SQL conditions see them, in offset order; the first of message_ids is at first_offset. Without
-- events whose payload is no jsonb (match_events() delivers them), and without those for another group, or for one
-- subscription (direct_headers.sql), which match_events() handles.
create or replace function gapless.condition_events(
  _group_id text, _topic_id int, _message_ids bigint[], _first_offset bigint
) returns gapless.condition_event[]
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set jit = off set plan_cache_mode = force_custom_plan as $$
declare
  me text;    -- of direct messages those to this group; null: not checked
  found_events gapless.condition_event[] := '{}';
  each record;
  body jsonb;
  low bigint := (select min(i) from unnest(_message_ids) i);    -- as in claim_events()
  high bigint := (select max(i) from unnest(_message_ids) i);
begin
  select coalesce(g.stands_for, g.group_id) into me
  from gapless.topic t
  join gapless.consumer_group g using (topic_id)
  where t.topic_id = _topic_id and g.group_id = _group_id and t.direct;
  for each in
    select _first_offset + u.n - 1 as c_offset, o.*
    from unnest(_message_ids) with ordinality as u (id, n)
    cross join lateral (
      select m.event_type, m.key, m.payload, m.headers, m.host_id, m.user_id, m.transaction_id, m.created_ts
      from gapless.outbox_message_t m where m.id = u.id and m.id between low and high offset 0
    ) o
    where me is null
      or o.headers ->> 'gapless-to-group' is null
      or (o.headers ->> 'gapless-to-group' = me and o.headers ->> 'gapless-to-subscription' is null)
    order by u.n
  loop
    begin
      body := each.payload::jsonb;
    exception when others then
      if left(sqlstate, 2) in ('40', '53', '57', '58', 'XX') then
        raise;
      end if;
      continue;
    end;
    found_events := found_events || row(
      each.c_offset, each.event_type, each.key, body, each.headers, each.host_id, each.user_id,
      each.transaction_id, each.created_ts
    )::gapless.condition_event;
  end loop;
  if gapless.is_in_default(_message_ids) then
    raise exception using errcode = 'GL000';    -- its locks go, its rows stay
  end if;
  return found_events;
exception
  when sqlstate 'GL000' then
    return found_events;
end
$$;
