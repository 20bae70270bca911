-- Return the events and subscriptions for which a condition holds: among all pairs, or, with offsets and ids, among
-- these pairs alone. It raises the errors of the condition. Owned by gapless_condition, which may read nothing
-- (roles/condition.sql): a condition has no other rights than that role.
-- digest: of the condition; its function is inlined into this query, so a pair costs no call.
create or replace function gapless.ask_condition(
  _digest uuid, _events gapless.condition_event[], _subscriptions gapless.condition_subscription[],
  _offsets bigint[], _ids bigint[]
) returns table (offsets bigint[], ids bigint[])
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set jit = off
-- As make_condition() has them: one text means one thing.
set timezone = 'UTC'
set datestyle = 'ISO, MDY'
set intervalstyle = 'postgres'
set array_nulls = on
set transform_null_equals = off
as $$
declare
  asked name := 'condition_' || replace(_digest::text, '-', '');
begin
  if _offsets is null then
    return query execute format(
      'select array_agg(e.c_offset), array_agg(s.subscription_id) from unnest($1) e cross join unnest($2) s '
        || 'where gapless.%I(e, s)',
      asked
    ) using _events, _subscriptions;
    return;
  end if;
  return query execute format(
    'select array_agg(e.c_offset), array_agg(s.subscription_id) from unnest($3, $4) p (c_offset, subscription_id) '
      || 'join unnest($1) e on e.c_offset = p.c_offset join unnest($2) s on s.subscription_id = p.subscription_id '
      || 'where gapless.%I(e, s)',
    asked
  ) using _events, _subscriptions, _offsets, _ids;
end
$$;
