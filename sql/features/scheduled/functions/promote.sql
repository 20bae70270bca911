-- Move due events into the log's table, at most max_events at a time and the rest of their transactions; the next run
-- of the sequencer gives them offsets. The active sequencer calls it, in a transaction of its own, and again as long as
-- `promoted` is above 0. Due schedules are published first.
--   select * from gapless.promote();
-- low, low_id: where to begin, as the previous call returned them (low_at, low_id). Events that are due before it were
-- looked at, and either a cancel() that has not ended holds them (held), or they were committed later. So held events
-- are stepped over once (I11), and promoted events, which stay in the index under a held snapshot, are not walked
-- through again. Such a call looks at max_events events at most; look from the beginning now and then. low_id null:
-- nothing is remembered, and the call steps over all held events until it finds an event to promote.
-- promoted: the number of events; null: another session is promoting. wait_s: seconds until an event or a schedule is
-- due, null: none waits; due_s: the same, for scheduled events alone.
--
-- S1: an event is due when gapless.clock() has passed its time. S2: cancel() or this function deletes a row, whichever
-- has it locked. S3: events of one transaction and deliver_at move together, as neighbours, with their transaction_id
-- and cause: if a cancel() that has not ended holds one of them, all wait. S4: the order is by deliver_at, then by the
-- first event of each transaction, then as published.
-- It looks first: a call that finds no due event writes nothing, and takes no xid and no lock.
-- MUST compare with a variable: deliver_at <= clock_timestamp() is no condition of an index, because that function is
-- volatile.
-- Raises 55P03 when another session has locked a table that it writes: try again later (later_holders.sql names them).
-- locks: guard_promoting, then the rows; never waits for one, and 100 ms for a table: sequencers call it (I11)
-- index: primary key of scheduled, scheduled_xid, scheduled_counts_from, schedule_due, schedule_last_due
create or replace function gapless.promote(
  max_events int default 1000, low timestamptz default '-infinity', inout low_id bigint default null,
  out promoted bigint, out wait_s double precision, out low_at timestamptz, out due_s double precision, out held bigint
)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off set lock_timeout = '100ms' as $$
declare
  now_ts timestamptz;
  next_due timestamptz;
  due_at timestamptz;    -- of the first that waits
  first_id bigint;
  part record;
begin
  -- MUST stay one statement: PL/pgSQL sets up each of its statements anew in each transaction, and most looks find
  -- nothing. So it does with each expression, also with the initial values of variables.
  select 0, 0, case when x.due_at <= x.now_ts then low else x.now_ts end,
    case when x.due_at <= x.now_ts then coalesce(low_id, 0) else 0 end, x.due_at, x.next_due, x.now_ts,
    extract(epoch from x.due_at - x.now_ts), extract(epoch from least(x.due_at, x.next_due) - x.now_ts)
  into promoted, held, low_at, first_id, due_at, next_due, now_ts, due_s, wait_s
  from (
    select n.now_ts, (
        select s.deliver_at from gapless.scheduled s
        where (s.deliver_at, s.scheduled_id) >= (low, coalesce(low_id, 0))
        order by s.deliver_at, s.scheduled_id limit 1
      ) as due_at, least((
        select s.next_due from gapless.schedule s where s.paused_ts is null order by s.next_due limit 1
      ), (    -- the clock was put back behind the last published time (fire_schedules.sql)
        select n.now_ts from gapless.schedule s where s.last_due > n.now_ts + interval '1 s' limit 1
      ), (    -- or behind the reading of a waiting event (heal_later.sql)
        select n.now_ts from gapless.scheduled s where s.counts_from > n.real_ts + interval '1 s' limit 1
      )) as next_due
    from (select gapless.clock() as now_ts, clock_timestamp() as real_ts offset 0) n
    offset 0
  ) x;
  if wait_s <= 0 then
    begin
      lock table gapless.guard_promoting in exclusive mode nowait;
    exception
      when lock_not_available then
        promoted := null;
        wait_s := 0;
        low_at := low;
        return;
    end;
    if next_due <= now_ts then
      if gapless.heal_later() > 0 then
        due_at := (select s.deliver_at from gapless.scheduled s order by s.deliver_at, s.scheduled_id limit 1);
      end if;
      promoted := gapless.fire_schedules(max_events);
      next_due := (
        select s.next_due from gapless.schedule s where s.paused_ts is null order by s.next_due limit 1
      );
    end if;
    if due_at <= now_ts then
      loop
        select * into part from gapless.move_due(max_events, low_at, first_id, now_ts);
        promoted := promoted + part.moved;
        held := held + part.held;
        exit when part.next_at is null;
        low_at := part.next_at;
        first_id := part.next_id;
        exit when low_id is not null or promoted > 0;
      end loop;
      due_at := (
        select s.deliver_at from gapless.scheduled s where (s.deliver_at, s.scheduled_id) >= (low_at, first_id)
        order by s.deliver_at, s.scheduled_id limit 1
      );
      if low_id is null and held > 0 then
        low_at := low;
      elsif (due_at <= now_ts) is not true then
        low_at := now_ts;
        first_id := 0;
      end if;
    end if;
    due_s := extract(epoch from due_at - now_ts);
    wait_s := extract(epoch from least(due_at, next_due) - now_ts);
  end if;
  low_id := first_id;
end
$$;
