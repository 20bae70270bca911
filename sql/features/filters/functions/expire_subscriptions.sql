-- Remove the subscriptions that were not renewed in their time (subscribe.sql): the housekeeper calls it now and then.
-- gap_s: as in expire_groups(). Each removal is audited (action expire_subscription); at most a thousand in one call.
-- Returns, for each group, the number of removed subscriptions.
-- A group whose subscriptions another session is changing keeps them until the next call.
-- locks: the row of expiry_clock, then the groups' filter rows, by try
create or replace function gapless.expire_subscriptions(_gap_s double precision)
returns table (group_id text, topic text, subscriptions bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  reading interval;
  each record;
begin
  update gapless.expiry_clock k
  set watched = k.watched + gapless.counted_time(k.looked_ts, clock_timestamp(), _gap_s),
    looked_ts = clock_timestamp()    -- the present moment, also after a newer one, when the clock was put back
  returning k.watched into reading;
  for each in
    select s.group_id, s.topic_id, t.name as topic, array_agg(s.name order by s.name) as names
    from (
      select d.group_id, d.topic_id, d.name from gapless.subscription d
      where d.expires_after is not null and d.renewed_at + d.expires_after <= reading
      order by d.renewed_at + d.expires_after
      limit 1000
    ) s
    join gapless.topic t using (topic_id)
    group by s.group_id, s.topic_id, t.name
    order by s.group_id, s.topic_id
  loop
    perform from gapless.group_filter f
    where f.group_id = each.group_id and f.topic_id = each.topic_id
    for no key update skip locked;
    continue when not found;
    with over as materialized (    -- one may have been renewed before the lock
      select s.name, s.expires_after, reading - s.renewed_at as idle
      from gapless.subscription s
      where s.group_id = each.group_id and s.topic_id = each.topic_id and s.name = any (each.names)
        and s.renewed_at + s.expires_after <= reading
      for update
    ),
    audited as (
      insert into gapless.audit (action, group_id, topic_id, detail)
      select 'expire_subscription', each.group_id, each.topic_id,
        jsonb_build_object('name', o.name, 'expires_after', o.expires_after, 'idle', o.idle)
      from over o
    )
    select count(*) filter (where gapless.forget_subscription(each.group_id, each.topic_id, o.name))
    into subscriptions
    from over o;
    group_id := each.group_id;
    topic := each.topic;
    if subscriptions > 0 then
      return next;
    end if;
  end loop;
end
$$;
