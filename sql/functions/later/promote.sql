-- Move what is due into the log's table, at most max_events and the rest of the last transaction; the next
-- run of the sequencer gives offsets. Whoever sequences calls it, in a transaction of its own, and again while
-- `promoted` says that there was something. Due schedules are published first.
--   select * from gapless.promote();
-- low: nothing that waits has a deliver_at before it, for all its caller knows ('-infinity': it knows nothing):
--   under a held snapshot what was promoted before stays in the index, and is not walked through again.
-- promoted: how many; null: another session is at it. wait_s: in so many seconds something is due, null:
-- nothing waits. low_at: the low of the next call, unless a transaction that is still open has scheduled
-- something earlier: so look without it now and then.
--
-- S1: due is what gapless.clock() has passed. S2: a row is deleted by whoever has it, cancel() or this. S3:
-- events of one transaction and deliver_at move together, neighbours, with their transaction_id and cause: if
-- one of them is in a cancel() that has not ended, all wait. S4: by deliver_at, then transactions in the order
-- of their first event, then events as they were published.
-- Looks first: what finds nothing due writes nothing, and takes no xid and no lock.
-- MUST compare with a variable: deliver_at <= clock_timestamp() is no condition of an index, for that
-- function is volatile.
-- locks: guard_promoting, then the rows; never waits for one
-- index: primary key of scheduled, scheduled_xid
create or replace function gapless.promote(
  max_events int default 1000, low timestamptz default '-infinity',
  out promoted bigint, out wait_s double precision, out low_at timestamptz
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
  now_ts timestamptz;
  next_due timestamptz;
  due_at timestamptz;    -- of the first that waits
  left_out xid8[];
  part record;
begin
  -- MUST stay one statement: each of PL/pgSQL's own is set up anew in each transaction, and most looks find nothing.
  -- So is each expression, those that give variables a value at the start included.
  select 0, coalesce(x.due_at, greatest(low, x.now_ts)), x.due_at, x.next_due, x.now_ts,
    extract(epoch from least(x.due_at, x.next_due) - x.now_ts)
  into promoted, low_at, due_at, next_due, now_ts, wait_s
  from (
    select gapless.clock() as now_ts, (
        select s.deliver_at from gapless.scheduled s where s.deliver_at >= low order by s.deliver_at limit 1
      ) as due_at, (
        select s.next_due from gapless.schedule s where s.paused_ts is null order by s.next_due limit 1
      ) as next_due
    offset 0
  ) x;
  if wait_s <= 0 then
    begin
      lock table gapless.guard_promoting in exclusive mode nowait;
    exception
      when lock_not_available then
        promoted := null;
        wait_s := 0;
        return;
    end;
    if next_due <= now_ts then
      promoted := gapless.fire_schedules(max_events);
      next_due := (
        select s.next_due from gapless.schedule s where s.paused_ts is null order by s.next_due limit 1
      );
    end if;
    if due_at <= now_ts then
      left_out := '{}';
      for turn in 1..20 loop
        select * into part from gapless.move_due(max_events, low, now_ts, left_out);
        promoted := promoted + part.moved;
        left_out := left_out || part.held;
        exit when part.held = '{}' or promoted >= max_events / 2;
      end loop;
      due_at := (
        select s.deliver_at from gapless.scheduled s where s.deliver_at >= low
        order by s.deliver_at limit 1
      );
    end if;
    wait_s := extract(epoch from least(due_at, next_due) - now_ts);
    low_at := coalesce(due_at, greatest(low, now_ts));
  end if;
end
$$;
