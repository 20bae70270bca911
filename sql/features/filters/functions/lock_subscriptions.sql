-- Lock the subscriptions of a group against other changes of them; false: it has had none yet. Raises GL400 for a group
-- with a filter. A part of subscribe() and unsubscribe().
-- locks: the group's filter row
create or replace function gapless.lock_subscriptions(_group_id text, _topic text, _topic_id int) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  is_subscribed boolean;
begin
  select f.subscribed into is_subscribed from gapless.group_filter f
  where f.group_id = _group_id and f.topic_id = _topic_id
  for no key update;
  if not is_subscribed then
    raise exception 'group "%" has a filter of topic "%", and so no subscriptions: clear_filter() first',
      _group_id, _topic
      using errcode = 'GL400';
  end if;
  return is_subscribed is not null;
end
$$;
