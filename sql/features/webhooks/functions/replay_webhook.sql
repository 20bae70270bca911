-- Send a webhook that shares a group the events once more that were published at that time or later and were sent
-- already. Units with events that it matches now are set aside for it alone, to be sent at once (set_missed_aside.sql),
-- as the same messages with the same ids. Returns the number of units. Events that its group has not reached are sent
-- anyway; a paused endpoint gets them from its place on. Other webhooks see nothing of it, and no worker is fenced.
-- Raises GL404 for an unknown webhook; GL409 for one that has a group of its own (seek() is for that), for more than
-- 100 000 events, and for a condition that raises or is slow; GL400 when events since then are gone. Audited.
-- locks: the webhook's row, the group's filter row, the letters of these units
create or replace function gapless.replay_webhook(name text, since timestamptz) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  most constant int := 100000;    -- events
  step constant int := 1000;      -- resume_subscription() asks about as many at most
  own gapless.webhook := gapless.require_webhook(replay_webhook.name);
  own_group text := gapless.group_of_webhook(own);
  of_topic text := (select t.name from gapless.topic t where t.topic_id = own.topic_id);
  number bigint;
  firsts bigint[];
  ends bigint[];
  partitions int[];
  events bigint;
  units bigint := 0;
  stops gapless.subscription_stop[];
begin
  if not own.shared then
    raise exception 'webhook "%" has a group of its own, which can be moved back: gapless seek %', own.name, own_group
      using errcode = 'GL409';
  end if;
  perform gapless.lock_subscriptions(own_group, of_topic, own.topic_id);
  select s.subscription_id into strict number from gapless.subscription s
  where s.group_id = own_group and s.topic_id = own.topic_id and s.name = own.name;
  select array_agg(r.partition_id), array_agg(r.first), array_agg(r.upto), sum(greatest(r.upto - r.first, 0))
  into partitions, firsts, ends, events
  from (
    select c.partition_id, coalesce(p.from_offset, c.next_offset) as upto,
      gapless.checked_time(of_topic, c.topic_id, c.partition_id, replay_webhook.since) as first
    from gapless.consumer_offsets c
    left join gapless.subscription_stop p on p.subscription_id = number and p.partition_id = c.partition_id
    where c.group_id = own_group and c.topic_id = own.topic_id
    order by c.partition_id
  ) r;
  if events > most then
    raise exception 'since then % events were passed: at most % at a time can be looked at again', events, most
      using errcode = 'GL409';
  end if;
  -- A paused one matches nothing: until the COMMIT this transaction alone asks it.
  with gone as (
    delete from gapless.subscription_stop p where p.subscription_id = number returning p
  )
  select array_agg(g.p) into stops from gone g;
  for i in 1 .. cardinality(partitions) loop
    while firsts[i] < ends[i] loop
      units := units + gapless.set_missed_aside(
        own_group, own.topic_id, partitions[i], number, firsts[i], least(firsts[i] + step, ends[i]) - 1,
        _replays => true
      );
      firsts[i] := firsts[i] + step;
    end loop;
  end loop;
  insert into gapless.subscription_stop select p.* from unnest(stops) p;
  insert into gapless.audit (action, group_id, topic_id, detail)
  values (
    'replay_webhook', own_group, own.topic_id,
    jsonb_build_object('name', own.name, 'since', replay_webhook.since, 'units', units)
  );
  return units;
end
$$;
