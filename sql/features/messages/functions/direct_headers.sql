-- Return the headers of a direct message: the given ones with its group, and the name of its only subscription in that
-- group (null: none). Raises GL404 unless the topic has such a group, and the group such a subscription; GL409 unless
-- the topic takes direct messages (set_direct.sql), 22023 for headers that are no object, and for a subscription
-- without a group. A plain INSERT sets the headers itself, without a check that there is such a group: then all groups
-- pass it. If there is no such subscription, match_events() delivers it to the group.
create or replace function gapless.direct_headers(
  _topic text, _headers jsonb, _to_group text, _to_subscription text default null
) returns jsonb
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  here gapless.topic;
begin
  select t.* into strict here from gapless.topic t where t.topic_id = gapless.topic_id(_topic);
  if jsonb_typeof(_headers) <> 'object' then
    perform gapless.refuse_headers(_headers);
  end if;
  if _to_group is null then
    raise exception 'to_subscription "%" is of no group: say to_group, too', _to_subscription
      using errcode = 'invalid_parameter_value';
  end if;
  if not here.direct then
    raise exception 'topic "%" takes no direct messages: gapless topics alter % --direct', here.name, here.name
      using errcode = 'GL409';
  end if;
  if not exists (
    select from gapless.consumer_group g
    where g.group_id = _to_group and g.topic_id = here.topic_id and not g.is_scratch
  ) then
    raise exception 'topic "%" has no group "%": a message to it would reach no handler', here.name, _to_group
      using errcode = 'GL404';
  end if;
  if _to_subscription is null then
    return coalesce(_headers, '{}') || jsonb_build_object('gapless-to-group', _to_group);
  end if;
  if not exists (
    select from gapless.subscription s
    where s.group_id = _to_group and s.topic_id = here.topic_id and s.name = _to_subscription
  ) then
    raise exception 'group "%" has no subscription "%" of topic "%": a message to it would reach no handler',
      _to_group, _to_subscription, here.name
      using errcode = 'GL404';
  end if;
  return coalesce(_headers, '{}')
    || jsonb_build_object('gapless-to-group', _to_group, 'gapless-to-subscription', _to_subscription);
end
$$;
