-- Resume a subscription that was stopped (stop_subscriptions.sql). First it is asked about the events that it missed:
-- in each partition, those from the offset at which it was stopped up to the group's offset, or further where the group
-- has finished more. Units with matches are set aside as waiting, so that workers handle them soon, for this
-- subscription alone; then it is asked like all others. Returns the number of these units; null: it was not stopped.
-- Raises GL409 when its condition still raises: it stays stopped, and nothing was changed; subscribe() by its name
-- gives it another condition. Raises GL404 for an unknown subscription.
-- The call is audited. The subscription is asked about one event, then 2, 4, … up to 1000 at a time. When that takes
-- longer than 5 s, as long as a claim may take, it is too slow and stays stopped (GL409). Only statement_timeout ends a
-- single evaluation that does not end; Python and the command line set it.
-- Workers of these partitions are fenced, and begin anew: an at-least-once handler has read ahead without it.
-- locks: the group's filter row; at the end the group's offsets, so workers wait while the last events are asked about
create or replace function gapless.resume_subscription(group_id text, topic text, name text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  wanted int := gapless.topic_id(topic);
  number bigint;
  stops gapless.subscription_stop[];
  stop gapless.subscription_stop;
  upto bigint;
  starts bigint[];    -- the offsets at which it was stopped
  next_from bigint;
  unit bigint;         -- the first offset of the next event's unit
  matched bigint;
  units bigint := 0;
  is_last boolean;
  size bigint := 1;    -- so a slow condition is found early: each evaluation takes about twice as long
begin
  if gapless.lock_subscriptions(resume_subscription.group_id, resume_subscription.topic, wanted) then
    select s.subscription_id into number from gapless.subscription s
    where s.group_id = resume_subscription.group_id and s.topic_id = wanted and s.name = resume_subscription.name;
  end if;
  if number is null then
    perform gapless.group_partitions(resume_subscription.group_id, resume_subscription.topic);
    raise exception 'group "%" has no subscription "%" of topic "%"',
      resume_subscription.group_id, resume_subscription.name, resume_subscription.topic
      using errcode = 'GL404';
  end if;
  -- From here on this transaction alone asks it: others see it stopped until the COMMIT.
  with gone as (
    delete from gapless.subscription_stop p where p.subscription_id = number returning p
  )
  select array_agg(g.p order by (g.p).partition_id), array_agg((g.p).from_offset order by (g.p).partition_id)
  into stops, starts from gone g;
  if stops is null then
    return null;
  end if;
  -- Most events without a lock, then the newer ones with the offsets locked: it missed them up to exactly there.
  foreach is_last in array array[false, true] loop
    for i in 1 .. cardinality(stops) loop
      stop := stops[i];
      if is_last then
        update gapless.consumer_offsets c set token = null
        where c.group_id = resume_subscription.group_id and c.topic_id = wanted
          and c.partition_id = stop.partition_id
        returning c.next_offset into upto;
        -- Deliveries in hand there end without being noted: that says nothing of the unit (I8). As forget_deliveries().
        update gapless.delivery d set crashes = d.crashes - 1
        where d.group_id = resume_subscription.group_id and d.topic_id = wanted
          and d.partition_id = stop.partition_id and not d.finished and d.crashes > 0;
        update gapless.dead_letter d set crashes = d.crashes - 1
        where d.group_id = resume_subscription.group_id and d.topic_id = wanted
          and d.partition_id = stop.partition_id and d.state = 'waiting' and d.crashes > 0;
      else
        select c.next_offset into upto from gapless.consumer_offsets c
        where c.group_id = resume_subscription.group_id and c.topic_id = wanted
          and c.partition_id = stop.partition_id;
      end if;
      -- Units that an at-least-once handler finished ahead of the offset, without this subscription, are not handled
      -- again either.
      upto := greatest(upto, (
        select max(d.last_offset) + 1 from gapless.delivery d
        where d.group_id = resume_subscription.group_id and d.topic_id = wanted
          and d.partition_id = stop.partition_id and d.finished
      ));
      while stop.from_offset < upto loop
        next_from := least(stop.from_offset + size, upto);
        matched := gapless.set_missed_aside(
          resume_subscription.group_id, wanted, stop.partition_id, number, stop.from_offset, next_from - 1
        );
        unit := gapless.unit_start(wanted, stop.partition_id, stop.from_offset);
        if matched > 0 and (    -- the questions before found the first of these units, too
          select bool_or(e.c_offset < stop.from_offset) and bool_or(e.c_offset >= stop.from_offset)
          from gapless.dead_letter_event e
          where e.group_id = resume_subscription.group_id and e.topic_id = wanted
            and e.partition_id = stop.partition_id and e.first_offset = unit
            and e.c_offset >= greatest(unit, starts[i]) and number = any (e.subscriptions)
        ) then
          matched := matched - 1;
        end if;
        units := units + matched;
        stop.from_offset := next_from;
        size := least(2 * size, 1000);
      end loop;
      stops[i] := stop;
    end loop;
  end loop;
  insert into gapless.audit (action, group_id, topic_id, detail)
  values (
    'resume_subscription', resume_subscription.group_id, wanted,
    jsonb_build_object('name', resume_subscription.name, 'units', units)
  );
  return units;
end
$$;
